// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/timer.hpp"
#include "train/nonfinite_report.hpp"

namespace lockstep {

namespace {

/// Copies arrays that are somebody's live numbers into `memory`.
void take_along(Checkpoint& checkpoint, std::span<std::byte> memory) {
  std::byte* free = memory.data();
  for (NamedArray& array : checkpoint.arrays) {
    const std::byte* data = array.data.get();
    const bool is_there = data >= memory.data() && data < memory.data() + memory.size();
    if (is_there || array.data.use_count() > 0) continue;  // or has memory of its own
    std::memcpy(free, data, array.bytes());
    array.data = {std::shared_ptr<void>(), free};
    free += array.bytes();
  }
}

}  // namespace

std::span<std::byte> CheckpointWriter::memory(std::size_t bytes) {
  const Timer timer;
  wait();
  if (memory_.size() < bytes) {
    memory_ = {};  // before the new one: there is room for one
    memory_ = Kokkos::View<std::byte*, StagingSpace>("lockstep::checkpoint", bytes);
  }
  waiting_ += timer.seconds();
  return {memory_.data(), bytes};
}

void CheckpointWriter::write_async(std::int64_t step, Checkpoint checkpoint, std::function<void()> before_commit,
                                   std::vector<std::int64_t> best) {
  wait();
  ++behind_;
  std::promise<void> copied;
  copied_ = copied.get_future();
  const auto failed = [step](const std::exception& error) {
    warn("the checkpoint of step {} is not there: {}; the run goes on, and the next one is tried", step, error.what());
  };
  try {
    writing_ = std::async(std::launch::async,
                          [this, step, failed, checkpoint = std::move(checkpoint), best = std::move(best),
                           before_commit = std::move(before_commit), copied = std::move(copied)]() mutable {
                            try {
                              take_along(checkpoint, {memory_.data(), memory_.size()});
                              copied.set_value();
                              write(step, checkpoint, before_commit, best);
                            } catch (const std::exception& error) {
                              failed(error);
                            }
                          });
  } catch (const std::system_error& error) {  // no thread to be had
    copied_ = {};
    failed(error);
  }
}

void CheckpointWriter::wait_for_snapshot() {
  if (!copied_.valid()) return;
  const Timer timer;
  copied_.get();
  waiting_ += timer.seconds();
}

void CheckpointWriter::write_now(std::int64_t step, const Checkpoint& checkpoint,
                                 const std::function<void()>& before_commit, const std::vector<std::int64_t>& best) {
  wait();
  std::exception_ptr failure;
  writing_ = std::async([&] {  // or in wait(), where no thread is to be had
    try {
      write(step, checkpoint, before_commit, best);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  wait();
  if (failure) std::rethrow_exception(failure);
}

void CheckpointWriter::wait() {
  if (!writing_.valid()) return;
  for (std::int64_t seen = parts_; writing_.wait_for(std::chrono::seconds(1)) == std::future_status::timeout;)
    if (const std::int64_t now = parts_; now != std::exchange(seen, now)) heartbeat().beat();
  writing_.get();
}

void CheckpointWriter::write(std::int64_t step, const Checkpoint& checkpoint,
                             const std::function<void()>& before_commit, const std::vector<std::int64_t>& best) {
  const Timer timer;
  const std::string name = checkpoint_name(step);
  for (const NamedArray& array : checkpoint.arrays) {
    if (!array.name.starts_with("/model/"))
      continue;  // an average of squares may be infinite, which only stops a parameter
    validate(
        count_nonfinite(array.data.get(), array.dtype, array.shape.count()) == 0, ExitStatus::internal,
        "{} of step {} holds numbers that are not finite, and is not written in the place of checkpoints that are of use; "
        "go on from the newest one, with a smaller learning rate",
        array.name, step);
  }
  try {
    CheckpointEvents events{.progress = [this] { ++parts_; }};
    if (before_commit) events.before_commit = before_commit;
    write_checkpoint(folder_ / name, checkpoint, events);
  } catch (const Error& error) {
    throw Error(ExitStatus::io_error, error.what());  // the run has made the folder: no fault of its name
  }
  written_step_ = step;
  point_link(folder_, latest_name, name);
  tidy(best);
  const double seconds = timer.seconds();
  longest_ = std::max(longest_.load(), seconds);
  seconds_ = seconds_ + seconds;
  ++written_;
}

void CheckpointWriter::tidy(const std::vector<std::int64_t>& best) const {
  namespace fs = std::filesystem;
  try {
    std::vector<std::string> kept;
    for (const std::int64_t step : best) kept.push_back(checkpoint_name(step));
    if (!best.empty() && fs::exists(folder_ / kept.front())) point_link(folder_, best_name, kept.front());
    else if (!best.empty() && fs::is_symlink(folder_ / best_name))
      kept.push_back(fs::read_symlink(folder_ / best_name));
    prune_checkpoints(folder_, keep_, kept);
  } catch (const std::exception& error) {
    warn("older checkpoints could not be removed: {}", error.what());
  }
}

CheckpointWriter::Times CheckpointWriter::times() const { return {written_, behind_, seconds_, longest_, waiting_}; }

}  // namespace lockstep
