// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <span>

#include "core/execution.hpp"
#include "io/checkpoint.hpp"

namespace lockstep {

/// Writes the checkpoints of a run, behind its steps: a step waits for the copy of its state, and for the checkpoint
/// before it if that is not on disk yet. Of rank 0.
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

  /// Memory for the copy of a state, which write_behind's checkpoint may point to. Waits until the one before is
  /// written.
  std::span<std::byte> memory(std::size_t bytes);
  /// Returns at once. A checkpoint that cannot be written is said, and not one of those that are kept: the run goes on,
  /// with the one before it. `before_commit`: see io/checkpoint.hpp; runs in the writing thread.
  void write_behind(std::int64_t step, Checkpoint checkpoint, std::function<void()> before_commit);
  /// Returns when it is on disk; throws what write_checkpoint throws.
  void write_now(std::int64_t step, const Checkpoint& checkpoint, const std::function<void()>& before_commit);
  /// Until nothing is being written.
  void wait();

  /// Of the newest checkpoint that is on disk.
  std::int64_t written_step() const { return written_step_; }
  /// That the longest one has taken; 0: none yet.
  double longest_seconds() const { return longest_seconds_; }
  /// Written by this process, and the time of all of them.
  std::int64_t written() const { return written_; }
  double seconds() const { return seconds_; }

 private:
  void write(std::int64_t step, const Checkpoint& checkpoint, const std::function<void()>& before_commit);

  std::filesystem::path folder_;
  std::int64_t keep_;
  std::atomic<std::int64_t> written_step_;
  Kokkos::View<std::byte*, StagingSpace> memory_;
  std::atomic<std::int64_t> written_ = 0;
  std::atomic<double> longest_seconds_ = 0, seconds_ = 0;
  std::future<void> writing_;
};

}  // namespace lockstep
