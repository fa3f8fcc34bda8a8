// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_transfer.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/copy_file.hpp"
#include "comm/topology.hpp"
#include "comm/transport.hpp"

namespace lockstep {

/// Checkpoints in memory: while steps go on, every rank leaves what it holds in files in the memory of its own node and
/// of the next node. The files outlive the process, so everything is still there when processes, or the processes and
/// the memory of one node, are gone (recover_from_neighbours). Two copies are kept, of which one is whole while the
/// other is written.
class NeighbourCopies {
 public:
  /// `run` is known to this run alone. `transfer` must have room for a copy (make_room). Collective.
  NeighbourCopies(const Topology& ranks, MemoryFolder folder, std::string run, CheckpointTransfer& transfer);
  NeighbourCopies(const NeighbourCopies&) = delete;
  NeighbourCopies& operator=(const NeighbourCopies&) = delete;
  ~NeighbourCopies() { wait(); }

  /// Begins to write the copies of this step. The numbers must stay as they are until `wait_for_snapshot`, and nobody
  /// else may use their copy until `wait`. `texts` are those of the checkpoint, on rank 0. With `at_once` the copy is
  /// made before this returns. `before_commit` runs in the writing thread, before the copies count. What cannot be
  /// written causes a warning. Collective.
  void write(std::int64_t step, std::map<std::string, std::string> texts, bool at_once,
             std::function<void()> before_commit);
  void wait_for_snapshot() { writing_.wait_for_copy(); }
  /// Waits until nothing is being written.
  void wait();
  /// Removes all copies, because what they hold is on disk or is not wanted any more. Collective.
  void remove();

 private:
  void exchange(std::int64_t step, const std::map<std::string, std::string>& texts);
  void settle_last();
  void note_failure(const std::exception& error);

  Topology ranks_;
  MemoryFolder folder_;
  std::string run_, start_;  ///< see CopyOrigin
  CheckpointTransfer& transfer_;
  std::unique_ptr<Transport> transport_;  ///< null: there is one node only
  // For messages; allocated before the first one, since a rank that has none would leave others waiting.
  std::unique_ptr<std::byte[]> sent_block_, received_block_;
  int next_ = 0;                                    ///< the rank that keeps this rank's copies
  std::vector<int> kept_for_;                       ///< the ranks whose copies this rank keeps
  std::optional<std::int64_t> last_, before_last_;  ///< steps of the last copies that were written, and of those before
  std::string failure_;                             ///< of this rank in the last write; set by the thread
  BackgroundWork writing_;                          ///< last member: ends before the others
};

/// Makes a checkpoint, in `checkpoints`, of the newest step after `step` for which the nodes' memory has what all ranks
/// of the run held (NeighbourCopies), whatever the ranks are now. Returns that step, or none if there is no such step.
/// Damaged copies are named in warnings and skipped. `run`, which identifies the run, `step` and `checkpoints` are
/// those of rank 0. Throws what write_checkpoint throws, on all ranks. Collective.
std::optional<std::int64_t> recover_from_neighbours(const Topology& ranks, const MemoryFolder& folder,
                                                    const std::string& run, std::int64_t step,
                                                    const std::filesystem::path& checkpoints,
                                                    const CheckpointEvents& events);

}  // namespace lockstep
