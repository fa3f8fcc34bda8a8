// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_transfer.hpp"

namespace lockstep {

/// Work on a copy of the state while steps go on: a thread makes the copy, and then does the work. One piece of work at
/// a time.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  /// Waits for the work.
  ~BackgroundWork() {
    wait([] {});
  }

  /// Starts the copy and then the work in a thread, and returns at once; if `in_thread` is false or no thread can be
  /// had, does both before it returns. Neither may throw.
  void start(bool in_thread, std::function<void()> copy, std::function<void()> work);
  /// Waits until the copy is made: then the state may change.
  void wait_for_copy();
  /// Waits until the work is done. `each_second` is called every second meanwhile.
  void wait(const std::function<void()>& each_second);

 private:
  std::future<void> copied_, done_;
};

/// Writes the checkpoints of a run, after its steps. On rank 0. A thread copies what this rank holds while the next
/// step computes its gradients, which does not change it, and then writes the copy and what other ranks give. A step
/// waits for the copy before it changes the state, and for the checkpoint before if that is not on disk yet.
class CheckpointWriter {
 public:
  /// `transfer` must have room for a copy (make_room) before the first checkpoint is written in the background.
  /// `folder` is that of the checkpoints, of which the newest `keep` are kept (0: all). `step` is the one that the run
  /// goes on from, whose checkpoint need not be written again; -1: none.
  CheckpointWriter(CheckpointTransfer& transfer, std::filesystem::path folder, std::int64_t keep, std::int64_t step)
      : transfer_(transfer), folder_(std::move(folder)), keep_(keep), written_step_(step) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for what is being written.
  ~CheckpointWriter() { wait(); }

  /// What a checkpoint has besides the numbers, and what is done for it.
  struct Contents {
    std::map<std::string, std::string> texts;
    std::function<void()> before_commit;  ///< see CheckpointEvents; runs in the writing thread
    std::vector<std::int64_t> best;       ///< as in `tidy`
  };
  /// When the copy is made: in the thread, or before write_async returns.
  enum class Copy { in_background, at_once };
  /// Returns at once; the numbers must stay as they are until `wait_for_snapshot`, and other ranks must serve in a
  /// turn. If the checkpoint cannot be written, this warns: the run goes on with the checkpoint before.
  void write_async(std::int64_t step, Contents contents, Copy copy);
  /// Waits until the numbers may change.
  void wait_for_snapshot();
  /// Writes a checkpoint and returns when it is on disk. Throws what write_checkpoint throws.
  void write_now(std::int64_t step, const Contents& contents, CheckpointTransfer::Turn& turn);
  /// Removes older checkpoints except those of the steps in `best`. The link `best` then names the first of these, if
  /// it could be written; if not, the checkpoint that the link names is kept, too. Must not be called while a
  /// checkpoint is being written.
  void tidy(const std::vector<std::int64_t>& best) const;
  /// Waits until nothing is being written. Rank 0's heartbeat goes on meanwhile, as long as parts reach the disk.
  void wait();

  /// Step of the newest checkpoint that is on disk.
  std::int64_t written_step() const { return written_step_; }
  /// Says that the run is now at this step, whose checkpoint is on disk; -1: at a step whose checkpoint is not.
  void set_written_step(std::int64_t step) { written_step_ = step; }

  /// Returns the step whose checkpoint could not be written, the last one if there are several since the last call; -1:
  /// none.
  std::int64_t take_failed_step() { return failed_step_.exchange(-1); }

  /// Seconds in this process: of writing all checkpoints, of writing the longest one, and of steps that waited for what
  /// was written in the background.
  struct Times {
    std::int64_t written = 0, in_background = 0;
    double writing = 0, longest = 0, waiting = 0;
  };
  Times times() const;

 private:
  void write(std::int64_t step, const Contents& contents, CheckpointTransfer::Turn& turn);

  CheckpointTransfer& transfer_;
  std::filesystem::path folder_;
  std::int64_t keep_;
  std::int64_t in_background_ = 0;
  double waiting_ = 0;
  // The writing thread writes these.
  std::atomic<std::int64_t> written_step_, failed_step_ = -1, written_ = 0;
  std::atomic<double> seconds_ = 0, longest_ = 0;
  std::atomic<std::int64_t> parts_ = 0;  ///< parts that have reached the disk
  BackgroundWork writing_;               ///< last member: ends before the others
};

}  // namespace lockstep
