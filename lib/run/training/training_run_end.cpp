// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a run ends; the rest is in training_run.cpp.
#include <algorithm>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "run/monitor/summary.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {

/// Ends the run with an error. If the step could not be done, the state before it is written; parameters that are not
/// finite are not.
void TrainingRun::give_up(const StepOutcome& outcome) {
  if (outcome.bad_parameters) {
    const PhaseClock::Scope phase(trainer_.clock(), RunPhase::checkpoint);
    comm_.run_collectively([&] { checkpoints_.wait(); });
  } else {
    checkpoints_.finish();
  }
  write_summary(failed_status, outcome.message);
  throw DivergedError(ExitStatus::internal, outcome.message);
}

/// Ends the run early, as ranks have voted.
ExitStatus TrainingRun::stop() {
  static_cast<void>(
      act_on(trainer_.inspect_parameters(comm_)));  // if it goes back to a checkpoint, the run stops there
  checkpoints_.finish();
  const std::string& reason = stop_vote_.reason();
  const std::vector<std::string> reasons = comm_.gather_to_root(
      reason.empty() ? "" : fmt::format("{} (rank {} on {})", reason, comm_.rank(), host_name()));
  write_summary(stopped_status);
  watchdog_->set_idle(true);
  if (!comm_.is_root()) {
    stop_vote_.done();
    return ExitStatus::stopped_early;
  }
  stop_vote_.stopped(*std::ranges::find_if(reasons, [](const std::string& each) { return !each.empty(); }));
  log("stopped at step {} of {}: {}; {} continues from there", trainer_.steps(), total_steps(), stopped_by(),
      folder_.resumes_automatically() ? "the same command" : "this deck with run.resume=auto");
  return ExitStatus::stopped_early;
}

void TrainingRun::write_summary(const std::string& status, const std::string& failure) {
  const Summary summary{
      .status = status,
      .failure = failure,
      .steps = trainer_.steps(),
      .epochs = state_.data.position.epoch,
      .ranks = comm_.size(),
      .lost_ranks = earlier_ ? earlier_->lost_ranks : std::vector<int>(),
      .threads = ExecSpace().concurrency(),
      .train = state_.curves.record ? std::optional(state_.curves.record->numbers.metrics) : std::nullopt,
      .evaluations = evaluations_.results(),
      .measured = progress_.measured(comm_, trainer_.clock()),
      .gradients = run_trainer_.gradient_counts(),
      .groups = prepared_.config.parallel.asynchronous.groups,
      .examples_per_step = run_trainer_.dealing().examples_of_update(prepared_.largest_batch()),
      .flops_per_example = trainer_.model().training_flops(1),
      .checkpoints = checkpoints_.writer() ? checkpoints_.writer()->times() : CheckpointWriter::Times(),
      .start_seconds = start_seconds_,
      .peak_rss_bytes = comm_.all_reduce_max(peak_rss_bytes()),
      .parameters = trainer_.model().graph().parameter_count(),
      .resumed_from = folder_.resumed_from(),
      .provenance = prepared_.provenance,
      .deck = prepared_.text};
  if (!comm_.is_root()) return;
  heartbeat().enter(static_cast<std::int32_t>(RunPhase::checkpoint));  // it may have to wait for the disk
  try {
    folder_.lock().require();
    folder_.write_text("summary.json", summary_json(summary));
  } catch (const Error& error) {
    if (status != stopped_status && status != failed_status) throw;
    warn("{}; the run's checkpoints are not affected", error.what());
  }
  log("{}", summary_text(summary, folder_.metrics().parent_path().string()));
}

}  // namespace lockstep
