// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/background_work.hpp"
#include "checkpoint/memory_folder.hpp"
#include "checkpoint/number_stream.hpp"
#include "comm/topology.hpp"
#include "comm/transport.hpp"

namespace lockstep {

/// Checkpoints in memory: every rank leaves what it holds in files in the memory of its own node and of the next one,
/// while steps go on, where they outlive its process; so that all of it is there when processes, or the processes and
/// the memory of one node, are gone (recover_from_neighbours). Two of them are kept, of which one is whole while the
/// other is written.
class NeighbourCopies {
 public:
  /// `run`: known to this run alone. `numbers`: which has room for a copy. Collective.
  NeighbourCopies(const Topology& ranks, MemoryFolder folder, std::string run, NumberStream& numbers);
  NeighbourCopies(const NeighbourCopies&) = delete;
  NeighbourCopies& operator=(const NeighbourCopies&) = delete;
  ~NeighbourCopies() { wait(); }

  /// Begins to write those of this step: numbers must stay as they are until `wait_for_snapshot`, and nobody else may
  /// use their copy until `wait`. `texts`: of the checkpoint, on rank 0. `at_once`: the copy is made before this
  /// returns. `before_commit`: runs in the writing thread, before the copies count. What cannot be written is a
  /// warning. Collective.
  void write(std::int64_t step, std::map<std::string, std::string> texts, bool at_once,
             std::function<void()> before_commit);
  void wait_for_snapshot() { writing_.wait_for_copy(); }
  /// Until nothing is being written.
  void wait();
  /// Removes all of them, since what they hold is on disk. Collective.
  void remove();

 private:
  void exchange(std::int64_t step, const std::map<std::string, std::string>& texts);
  void settle_last();
  void note_failure(const std::exception& error);

  Topology ranks_;
  MemoryFolder folder_;
  std::string run_, start_;  ///< CopyOrigin's
  NumberStream& numbers_;
  std::unique_ptr<Transport> transport_;            ///< null: there is no other node
  int next_ = 0;                                    ///< the rank that keeps this one's copies
  std::vector<int> kept_for_;                       ///< ranks whose copies this one keeps
  std::optional<std::int64_t> last_, before_last_;  ///< steps of what was written
  std::string failure_;                             ///< of this rank, in the last one; the thread writes it
  BackgroundWork writing_;                          ///< last: it ends before they do
};

}  // namespace lockstep
