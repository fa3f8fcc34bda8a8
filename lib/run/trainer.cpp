// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "monitor/summary.hpp"

namespace lockstep {

double Trainer::learning_rate(const RunConfig& config, std::int64_t step) const {
  return config.optimizer.learning_rate() *
         config.schedule.factor(step, lockstep::total_steps(config, data_.train->size()));
}

bool Trainer::finished() const { return state_.step >= total_steps() || selection_->ends_run(); }

ExitStatus Trainer::run() {
  log_banner();
  if (complete_) {
    log("{} is already at step {}: nothing is left to do.", folder_.resumed_from(), state_.step);
    return ExitStatus::done;
  }
  start_seconds_ = seconds_since_process_start();
  watchdog_.set_idle(false);
  do {
    if (!train_to_the_end()) return stop();
    if (!parameters_are_of_use()) continue;
    // What is logged from here on is beyond the schedule: a run that goes on from this checkpoint drops it,
    // so that its curves are those of a run that never stopped.
    finish_checkpoints();
    if (ends_between_rows()) log_step();
    if ((!validation_metrics_ || state_.evaluated_step != state_.step) && !evaluate_and_log()) return stop();
    if (goes_on() && !test_and_log()) return stop();
  } while (!goes_on());
  comm_.run_collectively([&] {
    if (writer_) progress_.file()->flush_to_disk();
  });
  // A run that goes on from the last checkpoint knows the best of that one, and not what this evaluation has shown.
  std::vector<std::int64_t> best = selection_->best_steps();
  for (const Selection::Evaluation& evaluation : state_.selection.best) best.push_back(evaluation.step);
  comm_.run_collectively([&] {
    if (writer_) writer_->tidy(best);
  });
  const bool early = state_.step < total_steps();
  if (early) log("{}: the run ends at step {}", selection_->reason(), state_.step);
  write_summary(selection_->target_reached() ? "target_reached" : early ? "out_of_patience" : "done");
  stop_request_.done();
  watchdog_.set_idle(true);
  return ExitStatus::done;
}

/// False if somebody wishes the run to stop first.
bool Trainer::train_to_the_end() {
  for (;;) {
    if (outcome_ == Outcome::impossible) give_up();
    if (outcome_ == Outcome::goes_back) roll_back();
    if (evaluation_due()) {  // which a run that was stopped has left to this one
      if (!evaluate_and_log()) return false;
      if (writer_) writer_->set_written_step(-1);  // that checkpoint does not know of it
      if (goes_on() && checkpoint_due()) write_checkpoint();
    } else if (finished()) {
      return true;
    } else {
      const Timer timer;
      train_step();
      space_.fence("lockstep::step");
      if (outcome_ == Outcome::taken || outcome_ == Outcome::left_out) after_step(timer.seconds());
      if (vote_.stop && goes_on() && (!finished() || evaluation_due())) return false;
    }
  }
}

/// The step cannot be done, and the state is that before it; or the parameters are spoilt, and are not written.
void Trainer::give_up() {
  if (vote_.bad_parameters)
    comm_.run_collectively([&] {
      if (writer_) writer_->wait();
    });
  else finish_checkpoints();
  write_summary(failed_status);
  throw SharedError(ExitStatus::internal, failure_);
}

/// Somebody wishes so.
ExitStatus Trainer::stop() {
  if (!parameters_are_of_use()) {
    if (outcome_ == Outcome::goes_back) roll_back();
    else give_up();
  }
  finish_checkpoints();
  const std::vector<std::string> reasons = comm_.gather_to_root(
      stop_reason_.empty() ? "" : fmt::format("{} (rank {} on {})", stop_reason_, comm_.rank(), host_name()));
  write_summary(stopped_status);
  watchdog_.set_idle(true);
  stop_request_.done();
  if (!comm_.is_root()) return ExitStatus::stopped_early;
  log("stopped at step {} of {}: {}; {} goes on from there", state_.step, total_steps(),
      *std::ranges::find_if(reasons, [](const std::string& reason) { return !reason.empty(); }),
      folder_.goes_on_by_itself() ? "the same command" : "this deck with run.resume=auto");
  return ExitStatus::stopped_early;
}

void Trainer::after_step(double seconds) {
  if (writer_) folder_.lock().require_lately();
  watchdog_.extend_timeout(false);
  heartbeat().step = state_.step + 1;
  longest_step_ = std::max(longest_step_, seconds);
  progress_.step_done(seconds, reducer_->take_exposed_seconds(), examples_in_step_);
  if (progress_.times().count() == 1) watchdog_.median_step(seconds);
  if (audit_ && state_.step % config_.parallel.audit_every == 0) compare_replicas();
  const bool logged = state_.step % config_.run.log_every == 0;
  if (logged || state_.step == total_steps()) state_.record = step_record(logged);
  if (logged) log_step();
  if ((!vote_.stop || finished()) && evaluation_due() && !evaluate_and_log()) vote_.stop = true;
  if (goes_on() && checkpoint_due()) write_checkpoint();
}

Metrics Trainer::step_metrics() { return sums_->reduce(space_, comm_, *loss_, examples_in_step_); }

StepRecord Trainer::step_record(bool logged) {
  const StepRecord record{
      .step = state_.step,
      .metrics = step_metrics(),
      .gradient_norm = std::sqrt(square_of(model_->parameters().trained_gradients())) * gradient_factor_,
      .left_out = outcome_ == Outcome::left_out,
      .logged = logged};
  return record;
}

/// The step of the state's record.
void Trainer::log_step() {
  const StepRecord& record = *state_.record;
  progress_.log(
      {.number = record.step,
       .epoch = epoch(),
       .left = total_steps() - record.step,
       .metrics = record.metrics,
       .gradient_norm = record.gradient_norm,
       .learning_rate = learning_rate(config_, std::max<std::int64_t>(0, state_.step - state_.skipped_steps - 1)),
       .skipped = record.left_out,
       .loss_scale = scaler_ ? std::optional(scaler_->scale()) : std::nullopt,
       .noise_scale = noise_scale_.value()});
  watchdog_.median_step(progress_.times().quantile(0.5));
}

/// Then the last step has a row only because it is the last: `run` writes it, behind the last checkpoint.
bool Trainer::ends_between_rows() const {
  return state_.step == total_steps() && state_.record && state_.record->step == state_.step && !state_.record->logged;
}

/// The row of a step comes before that of its evaluation: if `run` writes the one, it sees to the other as well.
bool Trainer::evaluation_due() const {
  if (ends_between_rows() || !data_.validation || state_.step == 0 || state_.evaluated_step == state_.step)
    return false;
  const auto [count, in_steps] = config_.run.evaluation_interval();
  return count > 0 && (in_steps ? state_.step % count == 0 : ended_epoch() && state_.position.epoch % count == 0);
}

/// None if somebody wishes the run to stop first.
std::optional<Metrics> Trainer::evaluate(const Dataset& data) {
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  // About twice a second: a batch takes less than the longest step.
  constexpr double asks_every = 0.5;
  const std::int64_t longest_us = comm_.all_reduce_max(
      std::llround(1e6 * longest_step_));  // 0: this process has done no step
  const std::int64_t batches = longest_us > 0 ? 1 + static_cast<std::int64_t>(1e6 * asks_every) / longest_us : 1;
  const bool saved = writer_ && writer_->written_step() == state_.step;
  const auto stops = [&, done = std::int64_t{0}]() mutable {
    return ++done % batches == 0 && comm_.all_reduce_max(wants_to_stop(saved) ? 1 : 0) != 0;
  };
  return lockstep::evaluate(space_, comm_, *model_, *loss_, data, *uploader_, *sums_, micro_batch_, stops);
}

/// False if somebody wishes the run to stop first: then the run that goes on evaluates. What the result means for the
/// run is in `outcome_`.
bool Trainer::evaluate_and_log() {
  if (!data_.validation || !parameters_are_of_use()) return true;
  const std::optional<Metrics> result = evaluate(*data_.validation);
  if (!result) return false;
  const Metrics& metrics = validation_metrics_.emplace(*result);
  if (const std::string anomaly = loss_watch_ ? loss_watch_->inspect_validation(metrics.loss) : ""; !anomaly.empty()) {
    failure_ = fmt::format("step {}: {}", state_.step, anomaly);
    outcome_ = act_on_anomaly();
    if (!goes_on()) return true;
    warn("{}", failure_);
  } else if (!std::isfinite(metrics.loss)) {
    warn("step {}: the validation loss is {}; `lockstep check --data` finds numbers in the data that are not finite",
         state_.step, metrics.loss);
  }
  // Of a step whose checkpoint knows the result, the row is there already.
  const bool again = state_.evaluated_step == state_.step;
  state_.evaluated_step = state_.step;
  progress_.log_evaluation("validation", state_.step, epoch(), metrics, !again);
  if (!again) is_among_the_best_ = selection_->inspect(state_.step, metrics);
  return true;
}

/// At the end of the run; false as for `evaluate_and_log`.
bool Trainer::test_and_log() {
  if (!data_.test) return true;
  test_metrics_ = evaluate(*data_.test);
  if (test_metrics_) progress_.log_evaluation("test", state_.step, epoch(), *test_metrics_, true);
  return test_metrics_.has_value();
}

bool Trainer::checkpoint_due() {
  const CheckpointOptions& options = config_.checkpoint;
  const bool by_steps = options.every_steps > 0 && state_.step % options.every_steps == 0;
  const bool by_epochs = options.every_epochs > 0 && ended_epoch() && state_.position.epoch % options.every_epochs == 0;
  return std::exchange(is_among_the_best_, false) || vote_.checkpoint || by_steps || by_epochs;
}

/// Collective, like all that may end in an error of all ranks.
void Trainer::compare_replicas() {
  if (!audit_ || std::exchange(audited_step_, state_.step) == state_.step) return;
  audit_->compare(space_, state_.step);
}

/// Every rank holds the same state, so rank 0 writes it, behind the next steps.
void Trainer::write_checkpoint() {
  const PhaseClock::Scope phase(clock_, StepPhase::checkpoint);
  compare_replicas();  // what differs must not take the place of what was good
  since_checkpoint_.restart();
  watchdog_.extend_timeout(true);  // rank 0 may have to wait for the disk
  if (!writer_) return;
  if (!nonfinite_->parameters_are_finite(space_, optimizer_->nonfinite())) return;  // the run ends, or goes back
  const std::span<std::byte> memory = writer_->memory(state_bytes());
  writer_->write_async(
      state_.step, snapshot(kernels_run_on_host ? std::span<std::byte>() : memory), [this] { before_commit(); },
      selection_->best_steps());
}

/// Of a checkpoint, which counts on the rows and replaces others. Runs in the writing thread as well.
void Trainer::before_commit() {
  folder_.lock().require();
  progress_.file()->flush_to_disk();
}

/// Returns when the checkpoint of this step is on disk.
void Trainer::finish_checkpoints() {
  const PhaseClock::Scope phase(clock_, StepPhase::checkpoint);
  compare_replicas();
  comm_.run_collectively([&] {
    if (!writer_) return;
    writer_->wait();
    if (writer_->written_step() != state_.step)
      writer_->write_now(state_.step, snapshot({}), [this] { before_commit(); }, selection_->best_steps());
  });
}

Checkpoint Trainer::snapshot(std::span<std::byte> memory) {
  state_.noise = noise_scale_.state();
  if (loss_watch_) state_.loss_watch = loss_watch_->state();
  state_.selection = selection_->state();
  state_.metrics_rows = progress_.file()->rows();
  std::map<std::string, std::string> texts{{"deck", deck_}, {"provenance", provenance_}};
  if (const std::string vocabulary = data_.train->vocabulary(); !vocabulary.empty()) texts["vocabulary"] = vocabulary;
  return make_checkpoint(space_, state_, std::move(texts), model_->parameters(), *optimizer_, memory);
}

std::size_t Trainer::state_bytes() const { return checkpoint_bytes(model_->parameters(), *optimizer_); }

/// To the newest checkpoint, and on from there with the examples in another order.
void Trainer::roll_back() {
  const PhaseClock::Scope phase(clock_, StepPhase::set_up);
  const std::int64_t rollbacks = state_.rollbacks + 1, anomalies = loss_watch_->state().anomalies;
  std::optional<RunFolder::Found> found;
  comm_.run_collectively([&] {
    if (!writer_) return;
    writer_->wait();
    // If one had to be gone back to twice, without another having been written meanwhile, it is none of the good ones.
    found = folder_.newest_checkpoint(went_back_to_);
  });
  if (comm_.all_reduce_max(found ? 1 : 0) == 0) {
    failure_ +=
        "; there is no checkpoint to go back to (loss_watch.on_anomaly is rollback); go on from the checkpoint of the step "
        "before, with a smaller learning rate";
    give_up();
  }
  loader_.reset();
  comm_.run_collectively([&] {
    if (!writer_) return;
    resume(found->checkpoint, found->file);
    went_back_to_ = checkpoint_name(state_.step);
    quarantine_checkpoints_after(folder_.checkpoints(), state_.step);  // what is there is of no use
    point_link(folder_.checkpoints(), latest_name, went_back_to_);
    writer_->set_written_step(state_.step);
    progress_.open(folder_.metrics(), state_.metrics_rows);
  });
  share_state();
  if (writer_) writer_->tidy(selection_->best_steps());
  state_.rollbacks = rollbacks;
  audited_step_ = -1;
  LossWatch::State watched = state_.loss_watch;
  watched.anomalies = anomalies;
  loss_watch_.emplace(config_.loss_watch, std::move(watched));
  outcome_ = Outcome::taken;
  fill_zero(space_, optimizer_->nonfinite());
  comm_.run_collectively([&] { make_loader(); });
  log("{}; goes back to step {}, and on with other examples", failure_, state_.step);
}

void Trainer::write_summary(const std::string& status) {
  Summary summary;
  summary.status = status;
  if (status == failed_status) summary.failure = failure_;
  summary.steps = state_.step;
  summary.epochs = state_.position.epoch;
  summary.ranks = comm_.size();
  summary.threads = ExecSpace().concurrency();
  if (state_.record) summary.train = state_.record->metrics;
  summary.validation = validation_metrics_;
  summary.test = test_metrics_;
  summary.best = selection_->best();
  const StepTimes& times = progress_.times();
  summary.times = &times;
  summary.clock = &clock_;
  summary.reduce_seconds = progress_.reduce_seconds();
  for (const auto& [phase, milliseconds] : phase_milliseconds(clock_, summary.reduce_seconds, times.count()))
    summary.spreads.push_back(spread_over_ranks(comm_, phase, milliseconds));
  if (statistics_)  // inside forward and backward
    summary.spreads.push_back(spread_over_ranks(
        comm_, "batch_norm_exposed",
        1e3 * statistics_->take_exposed_seconds() / static_cast<double>(std::max<std::int64_t>(1, times.count()))));
  summary.examples = progress_.examples();
  summary.examples_per_step = std::min(config_.batch.global, data_.train->size());
  summary.flops_per_example = model_->training_flops(1);
  summary.parameters = model_->graph().parameter_count();
  summary.peak_rss_bytes = comm_.all_reduce_max(peak_rss_bytes());
  summary.resumed_from = folder_.resumed_from();
  summary.provenance = provenance_;
  summary.deck = deck_;
  if (!comm_.is_root()) return;
  heartbeat().enter(static_cast<std::int32_t>(StepPhase::checkpoint));  // it may have to wait for the disk
  summary.checkpoints = writer_->times();
  summary.start_seconds = start_seconds_;
  try {
    folder_.lock().require();
    folder_.write_text("summary.json", summary_json(summary));
  } catch (const Error& error) {
    if (status != stopped_status && status != failed_status) throw;
    warn("{}; what the run goes on from is there all the same", error.what());
  }
  log("{}", summary_text(summary, folder_.metrics().parent_path().string()));
}

void Trainer::log_banner() const {
  const std::int64_t examples = data_.train->size();
  const int threads = ExecSpace().concurrency();
  log("{}: {} parameters, {} training examples, {}, {}, {} with {} thread{} a rank, {} steps", config_.run.name,
      model_->graph().parameter_count(), examples, batch_text(config_, partition_, examples),
      precision_names[static_cast<std::size_t>(config_.precision.compute)], ExecSpace::name(), threads,
      threads == 1 ? "" : "s", total_steps());
  for (const std::string& remark : batch_remarks(config_, partition_, examples)) warn("{}", remark);
  if (!folder_.resumed_from().empty() && !finished())
    log("goes on from {} at step {}", folder_.resumed_from(), state_.step);
}

}  // namespace lockstep
