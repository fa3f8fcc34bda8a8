// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_writer.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "comm/surviving_ranks.hpp"
#include "train/guard/nonfinite_report.hpp"

namespace lockstep {

void BackgroundWork::start(bool in_thread, std::function<void()> copy, std::function<void()> work) {
  const auto copied = std::make_shared<std::promise<void>>();
  copied_ = copied->get_future();
  const auto all = [copy = std::move(copy), work = std::move(work), copied] {
    copy();
    copied->set_value();
    work();
  };
  if (!in_thread) return all();
  try {
    done_ = std::async(std::launch::async, [all] {
      try {
        all();
      } catch (const RankLost&) {  // found also by the thread of steps, which deals with it
      }
    });
  } catch (const std::system_error&) {
    all();
  }
}

void BackgroundWork::wait_for_copy() {
  if (copied_.valid()) copied_.get();
}

void BackgroundWork::wait(const std::function<void()>& each_second) {
  if (!done_.valid()) return;
  while (done_.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) each_second();
  done_.get();
}

void CheckpointWriter::write_async(std::int64_t step, Contents contents, Copy copy) {
  const Timer timer;
  wait();
  waiting_ += timer.seconds();
  ++in_background_;
  if (copy == Copy::at_once) transfer_.copy(ExecSpace());
  writing_.start(
      transfer_.may_work_in_background(),
      [this, copy] {
        if (copy == Copy::in_background) transfer_.copy(ExecSpace());
      },
      [this, step, contents = std::move(contents)] {
        CheckpointTransfer::Turn turn(transfer_);
        try {
          write(step, contents, turn);
        } catch (const std::exception& error) {
          failed_step_ = step;
          warn("the checkpoint of step {} was not written: {}; the run continues, and tries again at the next one",
               step, as_error(error).what());
        }
      });
}

void CheckpointWriter::wait_for_snapshot() {
  const Timer timer;
  writing_.wait_for_copy();
  waiting_ += timer.seconds();
}

void CheckpointWriter::write_now(std::int64_t step, const Contents& contents, CheckpointTransfer::Turn& turn) {
  wait();
  std::exception_ptr failure;
  writing_.start(
      transfer_.may_work_in_background(), [] {},
      [&] {
        try {
          write(step, contents, turn);
        } catch (...) {
          failure = std::current_exception();
        }
      });
  wait();
  if (failure) std::rethrow_exception(failure);
}

void CheckpointWriter::wait() {
  const UsesFiles files;
  writing_.wait([this, seen = parts_.load()]() mutable {
    if (const std::int64_t now = parts_; now != std::exchange(seen, now)) heartbeat().beat();
  });
}

void CheckpointWriter::write(std::int64_t step, const Contents& contents, CheckpointTransfer::Turn& turn) {
  const Timer timer;
  const std::string name = checkpoint_name(step);
  const Checkpoint checkpoint{.arrays = arrays_of(transfer_.states()), .texts = contents.texts};
  const NumberSource numbers = [&](const NumberSink& sink) {
    source_of(transfer_)([&](std::size_t index, std::span<const std::byte> next) {
      const NamedArray& array = checkpoint.arrays[index];
      // Optimizer states are not checked: an average of squares may be infinite, which only stops a parameter.
      if (array.name.starts_with("/model/"))
        validate(count_nonfinite(next.data(), array.dtype,
                                 static_cast<std::int64_t>(next.size() / size_of(array.dtype))) == 0,
                 ExitStatus::internal,
                 "{} of step {} holds numbers that are not finite, and does not replace the checkpoints before it; "
                 "continue from the newest one, with a smaller learning rate",
                 array.name, step);
      sink(index, next);
    });
    turn.end();
  };
  std::error_code ignored;                              // without the folder, the file cannot be created
  std::filesystem::create_directory(folder_, ignored);  // again, if somebody has removed it
  try {
    CheckpointEvents events{.progress = [this] { ++parts_; }};
    if (contents.before_commit) events.before_commit = contents.before_commit;
    write_checkpoint(folder_ / name, checkpoint, numbers, events);
  } catch (const Error& error) {
    // The run has made the folder, so its name is not at fault.
    throw Error(error.status() == ExitStatus::internal ? error.status() : ExitStatus::io_error, error.what());
  }
  written_step_ = step;
  point_link(folder_, latest_name, name);
  tidy(contents.best);
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
    warn("older checkpoints could not be removed: {}", as_error(error).what());
  }
}

CheckpointWriter::Times CheckpointWriter::times() const {
  return {written_, in_background_, seconds_, longest_, waiting_};
}

}  // namespace lockstep
