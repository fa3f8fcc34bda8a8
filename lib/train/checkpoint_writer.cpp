// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/checkpoint_writer.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/timer.hpp"

namespace lockstep {

std::span<std::byte> CheckpointWriter::memory(std::size_t bytes) {
  wait();
  if (memory_.size() < bytes) {
    memory_ = {};  // before the new one: there is room for one
    memory_ = Kokkos::View<std::byte*, StagingSpace>("lockstep::checkpoint", bytes);
  }
  return {memory_.data(), bytes};
}

void CheckpointWriter::write_behind(std::int64_t step, Checkpoint checkpoint, std::function<void()> before_commit) {
  wait();
  writing_ = std::async(
      std::launch::async, [this, step, checkpoint = std::move(checkpoint), before_commit = std::move(before_commit)] {
        try {
          write(step, checkpoint, before_commit);
        } catch (const std::exception& error) {
          warn("the checkpoint of step {} is not there: {}; the run goes on, and the next one is tried", step,
               error.what());
        }
      });
}

void CheckpointWriter::write_now(std::int64_t step, const Checkpoint& checkpoint,
                                 const std::function<void()>& before_commit) {
  wait();
  write(step, checkpoint, before_commit);
}

void CheckpointWriter::wait() {
  if (writing_.valid()) writing_.get();
}

void CheckpointWriter::write(std::int64_t step, const Checkpoint& checkpoint,
                             const std::function<void()>& before_commit) {
  const Timer timer;
  const std::string name = checkpoint_name(step);
  try {
    write_checkpoint(folder_ / name, checkpoint, before_commit);
  } catch (const Error& error) {
    throw Error(ExitStatus::io_error, error.what());  // the run has made the folder: no fault of its name
  }
  written_step_ = step;
  point_latest(folder_, name);
  prune_checkpoints(folder_, keep_);
  const double seconds = timer.seconds();
  longest_seconds_ = std::max(longest_seconds_.load(), seconds);
  seconds_ = seconds_ + seconds;
  ++written_;
}

}  // namespace lockstep
