// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "core/execution.hpp"

namespace lockstep {

/// Writes the checkpoints of a run, behind its steps. A thread copies the state while the next step computes its
/// gradients, which changes nothing of it, and writes the copy. A step waits for the copy where it comes to changing
/// the state, and for the checkpoint before if that is not on disk yet. Of rank 0.
class CheckpointWriter {
 public:
  /// `folder`: of the checkpoints, of which the newest `keep` are kept (0: all). `step`: that the run goes on from,
  /// whose checkpoint need not be written again; -1: none.
  CheckpointWriter(std::filesystem::path folder, std::int64_t keep, std::int64_t step)
      : folder_(std::move(folder)), keep_(keep), written_step_(step) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for what is being written.
  ~CheckpointWriter() { wait(); }

  /// Memory for a copy of so many bytes. Waits until the checkpoint before is written.
  std::span<std::byte> memory(std::size_t bytes);
  /// Returns at once. Arrays that neither are in memory() nor own theirs are somebody's live numbers: they must stay as
  /// they are until `wait_for_snapshot`, and memory() must have room for all of them. A checkpoint that cannot be
  /// written is a warning: the run goes on, with the one before it. `best`: as for `tidy`. `before_commit`: see
  /// checkpoint/checkpoint.hpp; runs in the writing thread.
  void write_async(std::int64_t step, Checkpoint checkpoint, std::function<void()> before_commit,
                   std::vector<std::int64_t> best = {});
  /// Until live numbers may change.
  void wait_for_snapshot();
  /// Returns when it is on disk; throws what write_checkpoint throws.
  void write_now(std::int64_t step, const Checkpoint& checkpoint, const std::function<void()>& before_commit,
                 const std::vector<std::int64_t>& best = {});
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
  /// waited for what was written behind them.
  struct Times {
    std::int64_t written = 0, behind = 0;
    double writing = 0, longest = 0, waiting = 0;
  };
  Times times() const;

 private:
  void write(std::int64_t step, const Checkpoint& checkpoint, const std::function<void()>& before_commit,
             const std::vector<std::int64_t>& best);

  std::filesystem::path folder_;
  std::int64_t keep_;
  Kokkos::View<std::byte*, StagingSpace> memory_;
  std::future<void> copied_, writing_;
  std::int64_t behind_ = 0;
  double waiting_ = 0;
  // The writing thread writes these.
  std::atomic<std::int64_t> written_step_, written_ = 0;
  std::atomic<double> seconds_ = 0, longest_ = 0;
  std::atomic<std::int64_t> parts_ = 0;  ///< that have come to the disk
};

}  // namespace lockstep
