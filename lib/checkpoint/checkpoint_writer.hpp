// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/background_work.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/number_stream.hpp"

namespace lockstep {

/// Writes the checkpoints of a run, after its steps. A thread copies what this rank holds while the next step computes
/// its gradients, which changes nothing of it, and writes the copy, and what others give of theirs. A step waits for
/// the copy where it comes to changing the state, and for the checkpoint before if that is not on disk yet. Of rank 0.
class CheckpointWriter {
 public:
  /// `numbers`: which has room for a copy before the first is written in the background. `folder`: of the checkpoints,
  /// of which the newest `keep` are kept (0: all). `step`: that the run goes on from, whose checkpoint need not be
  /// written again; -1: none.
  CheckpointWriter(NumberStream& numbers, std::filesystem::path folder, std::int64_t keep, std::int64_t step)
      : numbers_(numbers), folder_(std::move(folder)), keep_(keep), written_step_(step) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for what is being written.
  ~CheckpointWriter() { wait(); }

  /// What a checkpoint has beside the numbers, and what is done for it.
  struct Contents {
    std::map<std::string, std::string> texts;
    std::function<void()> before_commit;  ///< see CheckpointEvents; runs in the writing thread
    std::vector<std::int64_t> best;       ///< as for `tidy`
  };
  /// How the copy is made: in the thread, or before this returns.
  enum class Copy { in_background, at_once };
  /// Returns at once: numbers must stay as they are until `wait_for_snapshot`. Others have to serve in a turn. A
  /// checkpoint that cannot be written is a warning: the run goes on, with the one before it.
  void write_async(std::int64_t step, Contents contents, Copy copy);
  /// Until numbers may change.
  void wait_for_snapshot();
  /// Returns when it is on disk; throws what write_checkpoint throws.
  void write_now(std::int64_t step, const Contents& contents, NumberStream::Turn& turn);
  /// Removes older checkpoints, but for those of the steps in `best`, whose first one the link `best` then names (if it
  /// could be written; else what it names stays, too). While nothing is being written.
  void tidy(const std::vector<std::int64_t>& best) const;
  /// Until nothing is being written. Rank 0's heart beats meanwhile, as long as parts come to the disk.
  void wait();

  /// The step of the newest checkpoint that is on disk.
  std::int64_t written_step() const { return written_step_; }
  /// The run is at this step now, whose checkpoint is there; -1: at one whose checkpoint is not.
  void set_written_step(std::int64_t step) { written_step_ = step; }

  /// Seconds, by this process: of all checkpoints that it has written, of the longest one, and those that steps have
  /// waited for what was written in the background.
  struct Times {
    std::int64_t written = 0, in_background = 0;
    double writing = 0, longest = 0, waiting = 0;
  };
  Times times() const;

 private:
  void write(std::int64_t step, const Contents& contents, NumberStream::Turn& turn);

  NumberStream& numbers_;
  std::filesystem::path folder_;
  std::int64_t keep_;
  std::int64_t in_background_ = 0;
  double waiting_ = 0;
  // The writing thread writes these.
  std::atomic<std::int64_t> written_step_, written_ = 0;
  std::atomic<double> seconds_ = 0, longest_ = 0;
  std::atomic<std::int64_t> parts_ = 0;  ///< that have come to the disk
  BackgroundWork writing_;               ///< last: it ends before they do
};

}  // namespace lockstep
