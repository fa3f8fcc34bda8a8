// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run does around its steps. What comes before the first step is in training_run_set_up.cpp, and how a run ends
// in training_run_end.cpp.
#include "run/training/training_run.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/experiment/experiment.hpp"
#include "run/monitor/machine_remarks.hpp"

namespace lockstep {
namespace {

std::string banner(const PreparedRun& prepared) {
  const RunConfig& config = prepared.config;
  Trainer& trainer = prepared.trainer();
  const std::int64_t examples = prepared.examples();
  const BatchPartition& partition = prepared.partition;
  const std::int64_t batch = prepared.largest_batch(), at_once = partition.largest_micro_batch(batch);
  const std::string micro = at_once < partition.largest_share(batch) ? fmt::format(", at most {} at once", at_once)
                                                                     : "";
  return fmt::format(
      "{}: {} parameters, {} training examples, {}{}, {}, {} with {} per rank, {} steps{}", config.run.name,
      trainer.model().graph().parameter_count(), examples, batch_text(config, partition, examples), micro,
      precision_names[static_cast<std::size_t>(config.precision.compute)], ExecSpace::name(),
      counted(ExecSpace().concurrency(), "thread"), prepared.total_steps(), end_of_run_text(config, examples));
}

/// remark_on_parts of what ranks own. Collective.
std::optional<std::string> remark_on_owned(const ParallelConfig& config, const ParameterLayout& layout,
                                           const Communicator& ranks) {
  const auto owned = static_cast<double>(layout.owned_count());
  double sum = owned;
  ranks.all_reduce_sum(std::span(&sum, 1));
  return remark_on_parts(config, ranks.all_reduce_max(owned), sum / ranks.size());
}

}  // namespace

/// Says what is trained, and from where.
void TrainingRun::announce() {
  log("{}", banner(prepared_));
  for (const std::string& remark :
       run_remarks(prepared_.config, trainer_.model().graph(), prepared_.partition, prepared_.examples()))
    warn("{}", remark);
  for (const std::string& remark : processor_remarks(Topology(comm_))) warn("{}", remark);
  if (const ParallelConfig& parallel = prepared_.config.parallel;
      parallel.sharding.divides() || parallel.sharding.chooses_shard)
    if (const std::optional<std::string> remark = remark_on_owned(parallel, trainer_.model().parameters().layout(),
                                                                  comm_))
      warn("{}", *remark);
  if (is_complete_) log("{} is already at step {}: nothing is left to do.", folder_.resumed_from(), trainer_.steps());
  else if (!folder_.resumed_from().empty()) log("resumes from {} at step {}", folder_.resumed_from(), trainer_.steps());
}

ExitStatus TrainingRun::run() {
  announce();
  if (is_complete_) return ExitStatus::done;
  start_seconds_ = seconds_since_process_start();
  watchdog_->set_idle(false);
  Next next = Next::resume_checkpoint;
  while (next == Next::resume_checkpoint) {
    next = train_to_the_end();
    if (next == Next::proceed) next = conclude();
  }
  if (next == Next::stop) return stop();
  checkpoints_.complete();
  checkpoints_.forget_unwritten_best();
  const bool early = trainer_.steps() < total_steps();
  if (early)
    log("{}: the run ends at step {}",
        evaluations_.ended_by_owner() ? "ended by the study" : evaluations_.selection().reason(), trainer_.steps());
  if (const std::int64_t left_out = trainer_.update().count().skipped; left_out > 0)
    log("{} of {} steps were left out, so the schedule of the learning rate ended at its step {}", left_out,
        trainer_.steps(), trainer_.steps() - left_out);
  write_summary(final_status());
  stop_vote_.done();
  watchdog_->set_idle(true);
  return ExitStatus::done;
}

/// The status of a run that has come to its end, for its summary.
std::string TrainingRun::final_status() const {
  if (evaluations_.selection().target_reached()) return "target_reached";
  if (evaluations_.ended_by_owner()) return "ended";
  return trainer_.steps() < total_steps() ? "out_of_patience" : "done";
}

/// Does all steps with their evaluations and checkpoints.
TrainingRun::Next TrainingRun::train_to_the_end() {
  while (evaluation_due() || !finished()) {
    Next next = Next::proceed;
    if (evaluation_due()) {  // a run that was stopped may have left it to this one
      next = validate([this] { checkpoints_.mark_out_of_date(); });
      if (next == Next::proceed) checkpoint_if_due();
    } else {
      const Timer timer;
      const std::int64_t before = trainer_.steps();
      step();
      if (last_step_.outcome) next = act_on(*last_step_.outcome);
      if (next == Next::proceed) next = after_steps(trainer_.steps() - before, timer.seconds());
    }
    if (next == Next::stop) return next;
  }
  return Next::proceed;
}

/// Writes the last checkpoint, and evaluates what the run has left.
TrainingRun::Next TrainingRun::conclude() {
  if (const Next next = act_on(trainer_.inspect_parameters(comm_)); next != Next::proceed) return next;
  // Rows that are logged from here on are beyond the schedule: a run that goes on from this checkpoint drops them, so
  // that its curves are those of a run that never stopped.
  if (evaluations_.ended_by_owner()) checkpoints_.end_without_checkpoint();
  else checkpoints_.finish();
  if (ends_between_rows()) log_step();
  if (!evaluations_.have_validated(trainer_.steps()))
    if (const Next next = validate(); next != Next::proceed) return next;
  return !prepared_.data.test || evaluations_.test(interruption()) ? Next::proceed : Next::stop;
}

RankRequests TrainingRun::requests() {
  return {.stop = stop_vote_.is_for_stop(run_trainer_.traits().steps_between_syncs, checkpoints_.seconds_for_next()),
          .checkpoint = comm_.is_root() && checkpoint_schedule_.minutes_have_passed()};
}

const StepResult& TrainingRun::step() {
  const std::int64_t number = trainer_.steps() + 1;
  require_known_step(number);
  if (run_trainer_.split_if_due()) comm_.run_collectively([&] { batches_.begin(); });
  const Timer timer;
  last_step_ = run_trainer_.step(
      batches_, {.requests = [this] { return requests(); }, .step_done = [this] { watchdog_->set_patient(false); }});
  if (last_step_.outcome) report(*last_step_.outcome);
  longest_call_ = std::max(longest_call_, last_step_.longest_step.value_or(timer.seconds()));
  steps_at_once_ = std::max<std::int64_t>(1, trainer_.steps() + 1 - number);
  if (last_step_.done()) batches_.step_done();
  else if (last_step_.outcome->number < number) batches_.take_back();
  if (last_step_.done()) settle_if_needed();
  return last_step_;
}

/// Throws if the record that the run replays ends before this step.
void TrainingRun::require_known_step(std::int64_t number) const {
  if (number <= run_trainer_.traits().known_steps) return;
  throw SharedError(ExitStatus::bad_data,
                    fmt::format("{}: ends after step {}, as the run that has left it did (run.target or "
                                "run.patience), but this run goes on; give the keys of that run",
                                prepared_.config.parallel.asynchronous.replay, number - 1));
}

/// Takes the outcome of the last step, which on devices is known one step late, if a row of the log or what follows the
/// step depends on it.
void TrainingRun::settle_if_needed() {
  const CompletedSteps steps = steps_done();
  const bool is_logged = steps.have_come_to(prepared_.config.run.log_every);
  const bool reads_parameters = finished() || run_trainer_.splits_next() || evaluation_due() ||
                                checkpoint_schedule_.is_due(steps, last_step_.requests) || last_step_.requests.stop;
  if (!is_logged && !reads_parameters) return;
  if (auto later = reads_parameters ? run_trainer_.settle() : run_trainer_.take_last()) {
    report(*later);
    if (!later->done()) batches_.take_back();
    last_step_.outcome = std::move(later);
  }
}

/// Logs if the step was left out or has a warning.
void TrainingRun::report(const StepOutcome& outcome) {
  if (outcome.status == StepOutcome::Status::skipped && !outcome.message.empty())
    log("step {:>7}  left out: {}", outcome.number, outcome.message);
  if (outcome.status == StepOutcome::Status::applied && !outcome.message.empty()) warn("{}", outcome.message);
}

/// Does what is due after steps that count.
TrainingRun::Next TrainingRun::after_steps(std::int64_t steps, double seconds) {
  if (checkpoints_.writer()) folder_.lock().require_lately();
  heartbeat().step = trainer_.steps() + 1;
  stop_vote_.step_done(seconds);
  const Trainer::ExposedSeconds exposed = trainer_.take_exposed_seconds();
  progress_.steps_done(steps, seconds, exposed, last_step_.examples);
  batches_.balance(exposed);
  if (progress_.times().count() == steps) watchdog_->median_step(longest_call_);
  if (!run_trainer_.has_common_parameters() || steps_at_once_ > 1) {
    evaluations_.postpone(steps_done());
    checkpoint_schedule_.postpone(steps_done(), last_step_.requests);
  }
  audit_.compare_if_due(steps_at_once_);
  const bool logged = steps_done().have_come_to(prepared_.config.run.log_every);
  if (logged || trainer_.steps() == total_steps())
    state_.curves.record = CurveRecord{
        .step = trainer_.steps(),
        .numbers = run_trainer_.step_metrics(),
        .skipped = last_step_.outcome && last_step_.outcome->status == StepOutcome::Status::skipped,
        .logged = logged};
  if (logged) log_step();
  Next next = last_step_.requests.stop && !finished() ? Next::stop : Next::proceed;
  if (next == Next::proceed && evaluation_due()) next = validate();
  if (next != Next::resume_checkpoint) checkpoint_if_due();
  return next;
}

/// Goes back to a checkpoint if an outcome asks for that. Throws if the run cannot go on.
TrainingRun::Next TrainingRun::act_on(const StepOutcome& outcome) {
  if (outcome.status == StepOutcome::Status::fatal) give_up(outcome);
  if (outcome.done()) return Next::proceed;
  roll_back(outcome);
  return Next::resume_checkpoint;
}

/// Logs the step that the state has a record of.
void TrainingRun::log_step() {
  const CurveRecord& record = *state_.curves.record;
  progress_.log({.number = record.step,
                 .epoch = state_.data.epoch(),
                 .left = total_steps() - record.step,
                 .skipped = record.skipped,
                 .numbers = record.numbers,
                 .scales = trainer_.logged_scales()});
  // The median is no measure of the parts of a batch that a rank computes between two synchronizations.
  watchdog_->median_step(steps_at_once_ > 1 ? longest_call_ : progress_.times().quantile(0.5));
  if (folder_.resumed_from().empty())
    checkpoint_schedule_.say_when_only_at_the_end(progress_.times().quantile(0.5) *
                                                  static_cast<double>(total_steps() - record.step));
}

RunEvaluations::Interruption TrainingRun::interruption() {
  const auto is_wanted = [this, saved = checkpoints_.is_saved()] {
    return stop_vote_.is_for_stop(run_trainer_.traits().steps_between_syncs,
                                  saved ? 0 : checkpoints_.seconds_for_next());
  };
  return {.is_wanted = is_wanted, .longest_step = stop_vote_.longest_step()};
}

/// Evaluates on the validation data, if there are any, and acts on what the parameters and their loss say of the run.
/// If ranks vote to stop first, the run that goes on evaluates.
TrainingRun::Next TrainingRun::validate(const std::function<void()>& before_acting) {
  if (!prepared_.data.validation) return Next::proceed;
  checkpoints_.forget_unwritten_best();
  std::optional<StepOutcome> outcome = trainer_.inspect_parameters(comm_);
  if (outcome->done()) outcome = evaluations_.validate(interruption());
  if (!outcome) return Next::stop;
  before_acting();
  return act_on(*outcome);
}

/// Begins to write the checkpoint that is due after the last steps, if any.
void TrainingRun::checkpoint_if_due() {
  const bool best = evaluations_.take_best();
  if (!best && !checkpoint_schedule_.is_due(steps_done(), last_step_.requests)) return;
  watchdog_->set_patient(true);  // rank 0 may have to wait for the disk
  checkpoint_schedule_.written();
  checkpoints_.write();
}

/// Goes back to the newest checkpoint, and on from there with the examples in another order. Writes that checkpoint
/// again first, so that a run that is killed before the next one goes on with this rollback and its counts.
void TrainingRun::roll_back(StepOutcome outcome) {
  const PhaseClock::Scope phase(trainer_.clock(), RunPhase::set_up);
  const std::int64_t rollbacks = state_.data.rollbacks + 1, anomalies = trainer_.loss_watch().anomalies();
  std::optional<RunFolder::Found> found;
  comm_.run_collectively([&] {
    checkpoints_.wait();
    if (comm_.is_root()) found = checkpoints_.find_good(state_.data.went_back_to);
  });
  if (!comm_.any_rank(found.has_value())) {
    outcome.message +=
        "; there is no checkpoint to go back to (loss_watch.on_anomaly is rollback); continue from the checkpoint of "
        "the step before, with a smaller learning rate";
    give_up(outcome);
  }
  batches_.end();
  comm_.run_on_root([&] {
    saved_state_.restore(found->checkpoint, found->file);
    checkpoints_.quarantine_others(trainer_.steps());
    progress_.open(folder_.metrics(), state_.curves.metrics_rows);
  });
  saved_state_.share();
  checkpoints_.go_back_to(trainer_.steps());
  checkpoints_.tidy();
  state_.data.rollbacks = rollbacks;
  state_.data.went_back_to = trainer_.steps();
  trainer_.loss_watch().set_anomalies(anomalies);
  watchdog_->set_patient(true);  // rank 0 waits for the disk
  checkpoints_.write();
  comm_.run_collectively([&] {
    checkpoints_.wait();
    batches_.begin();
  });
  log("{}; rolls back to step {} and continues with other examples", outcome.message, trainer_.steps());
  last_step_ = {};
}

}  // namespace lockstep
