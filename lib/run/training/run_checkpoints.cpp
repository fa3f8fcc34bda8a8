// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_checkpoints.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace lockstep {

RunCheckpoints::RunCheckpoints(const PreparedRun& prepared, RunFolder& folder, RunCheckpointState& state,
                               StateAudit& audit, Selection& selection, Progress& progress)
    : comm_(prepared.comm),
      options_(prepared.config.checkpoint),
      folder_(folder),
      trainer_(prepared.trainer()),
      state_(state),
      audit_(audit),
      selection_(selection),
      progress_(progress),
      run_trainer_(*prepared.run_trainer),
      transfer_(state.transfer()) {
  trainer_.before_change([this] {
    if (writer_) writer_->wait_for_snapshot();
    else serving_.wait_for_copy();
  });
}

void RunCheckpoints::open(std::int64_t step) {
  writer_.emplace(transfer_, folder_.checkpoints(), options_.keep, step);
  best_in_newest_ = selection_.best_steps();
  tidy();  // before the first checkpoint, since on a full disk none would be written that could do so
  warn_of_full_disk();
}

void RunCheckpoints::warn_of_full_disk() const {
  std::error_code code;
  const std::filesystem::path folder = folder_.checkpoints();
  const std::filesystem::space_info space = std::filesystem::space(
      std::filesystem::exists(folder, code) ? folder : folder.parent_path(), code);
  if (code) return;
  const bool removes = options_.regular() && options_.keep > 0;
  const std::int64_t to_write = (removes ? options_.keep + 1 : 1) - std::ssize(list_checkpoints(folder));
  const auto each = static_cast<double>(transfer_.bytes()), available = static_cast<double>(space.available);
  if (to_write <= 0 || static_cast<double>(to_write) * each <= available) return;
  warn(
      "{}: its disk has room for {}, but {} of {} each will be written{}; make room, {}or choose another run.output_dir",
      folder.string(), bytes_text(available), counted(to_write, "checkpoint"), bytes_text(each),
      removes ? " before the first is removed" : "", removes ? "set a smaller checkpoint.keep, " : "");
}

void RunCheckpoints::make_room() {
  if (options_.regular()) comm_.run_collectively([&] { transfer_.make_room(); });
}

void RunCheckpoints::flush_files() {
  const UsesFiles files;
  progress_.file()->flush_to_disk();
  run_trainer_.flush_files();
}

CheckpointWriter::Contents RunCheckpoints::contents() {
  best_in_newest_ = selection_.best_steps();
  const auto before_commit = [this] {
    folder_.lock().require();
    flush_files();
  };
  return {.texts = state_.texts(), .before_commit = before_commit, .best = best_in_newest_};
}

void RunCheckpoints::write() {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
  if (!audit_.is_good()) return;
  // Whether numbers are copied before the next step, instead of while it computes its gradients.
  const bool at_once = memory_is_separate || run_trainer_.traits().states_change_early;
  if (writer_)
    return writer_->write_async(trainer_.steps(), contents(),
                                at_once ? CheckpointWriter::Copy::at_once : CheckpointWriter::Copy::in_background);
  wait();
  if (at_once) transfer_.copy(space_);
  serving_.start(
      transfer_.may_work_in_background(),
      [this, at_once] {
        if (!at_once) transfer_.copy(space_);
      },
      [this] {
        try {
          transfer_.serve();
        } catch (const Error& error) {  // rank 0 has been told of it
          warn("the checkpoint lacks this rank's part: {}", error.what());
        }
      });
}

void RunCheckpoints::finish() {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
  audit_.compare();
  space_.fence("lockstep::checkpoint");
  comm_.run_collectively([&] {
    wait();
    transfer_.forget_copy();
    if constexpr (memory_is_separate) {  // what a thread sends is a copy on the host
      transfer_.make_room();
      transfer_.copy(space_);
    }
  });
  comm_.run_collectively([&] {
    if (!writer_) return transfer_.serve();
    CheckpointTransfer::Turn turn(transfer_);
    if (is_saved()) return;
    try {
      writer_->write_now(trainer_.steps(), contents(), turn);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::io_error) throw;
      const std::filesystem::path path = folder_.checkpoints();
      const std::int64_t newest = newest_step(path);
      throw Error(error.status(),
                  fmt::format("{}: the last checkpoint was not written ({}); make room, or fix what else is wrong, "
                              "and start again: the run {}",
                              (path / checkpoint_name(trainer_.steps())).string(), error.what(),
                              newest < 0 ? "starts from scratch" : "continues from " + checkpoint_name(newest)));
    }
  });
}

void RunCheckpoints::end_without_checkpoint() {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
  comm_.run_collectively([&] { wait(); });
}

void RunCheckpoints::complete() {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
  comm_.run_on_root([&] { flush_files(); });
  comm_.run_on_root([&] { tidy(); });
}

void RunCheckpoints::tidy() const {
  if (!writer_) return;
  const UsesFiles files;
  std::vector<std::int64_t> kept = selection_.best_steps();
  // A run that goes on from the newest checkpoint knows the best steps of that checkpoint, and none that came later.
  kept.insert(kept.end(), best_in_newest_.begin(), best_in_newest_.end());
  writer_->tidy(kept);
}

void RunCheckpoints::quarantine_others(std::int64_t step) {
  quarantine_checkpoints_after(folder_.checkpoints(), step);
  point_link(folder_.checkpoints(), latest_name, checkpoint_name(step));
}

void RunCheckpoints::go_back_to(std::int64_t step) {
  audit_.go_back();
  if (!writer_) return;
  writer_->set_written_step(step);
  best_in_newest_ = selection_.best_steps();
}

void RunCheckpoints::forget_unwritten_best() {
  if (selection_.best_steps().empty()) return;
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
  wait();  // so that the next evaluation is compared with none whose checkpoint turns out to be missing
  const std::int64_t failed = comm_.from_root(writer_ ? writer_->take_failed_step() : -1);
  if (failed >= 0 && selection_.forget_best([failed](std::int64_t step) { return step == failed; }))
    warn("step {} does not count for checkpoint.keep_best, as its checkpoint was not written", failed);
}

void RunCheckpoints::mark_out_of_date() {
  if (writer_) writer_->set_written_step(-1);
}

void RunCheckpoints::wait() {
  if (writer_) return writer_->wait();
  const WaitsForRanks waits;
  serving_.wait([] {});
}

double RunCheckpoints::seconds_for_next() const {
  if (!writer_) return 0;
  constexpr double bytes_a_second = 100e6;
  const double longest = writer_->times().longest;
  return longest > 0 ? longest : static_cast<double>(transfer_.bytes()) / bytes_a_second;
}

}  // namespace lockstep
