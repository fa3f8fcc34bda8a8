// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "train/summary.hpp"

namespace lockstep {

void Trainer::train_step() {
  const HostBatch* batch = nullptr;
  {
    const PhaseClock::Scope phase(clock_, StepPhase::data);
    batch = loader_->next();
  }
  sums_->clear(space_);
  // Scaled, the loss is a mean already, so that 16 bits hold the same numbers whatever the batch.
  const double examples_in_step = static_cast<double>(batch->plan.global_examples);
  const double loss_scale = scaler_ ? scaler_->scale() / examples_in_step : 1.0;
  if (scaler_) overflow_->begin(space_);
  for (const Piece& piece : pieces_of(cut_, batch->plan.global_examples, comm_.rank())) {
    if (piece.begins && piece.count == 0) fill_zero(space_, model_->parameters().gradients());
    const StepContext step = context(batch->plan.first, piece);
    DeviceBatch examples;
    {
      const PhaseClock::Scope phase(clock_, StepPhase::data);
      examples = uploader_->upload(space_, *batch, piece.first, piece.count);
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::forward);
      const Tensor outputs = model_->forward(step, examples.inputs);
      if (piece.count > 0) sums_->add(space_, *loss_, outputs, examples.targets, model_->output_gradient(), loss_scale);
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::backward);
      model_->backward(step, examples.inputs, [&](ParameterRange final) {
        if (piece.ends) gradients_final(final);
      });
    }
    if (piece.ends) sum_final(piece.examples);
  }
  {
    const PhaseClock::Scope phase(clock_, StepPhase::reduce);
    reduce_gradients();
  }
  {
    const PhaseClock::Scope phase(clock_, StepPhase::optimizer);
    gradient_factor_ = 1 / (examples_in_step * loss_scale);
    outcome_ = judge(votes_.loss / examples_in_step);
    if (writer_) writer_->let_go();  // of the parameters, for its copy
    if (outcome_ == Outcome::taken) update_parameters(examples_in_step);
  }
  if (outcome_ == Outcome::impossible || outcome_ == Outcome::goes_back) return;
  if (measures_noise())
    noise_scale_.end_step(comm_, square_of(model_->parameters().trained_gradients()), batch->plan.global_examples,
                          loss_scale);
  examples_in_step_ = batch->plan.global_examples;
  ++state_.step;
  state_.position = batch->plan.after;
}

/// A stretch of the sum of gradients that is being computed is final: this rank's, or one of its shards'.
void Trainer::gradients_final(ParameterRange range) {
  const ParameterBuffer& parameters = model_->parameters();
  if (scaler_) overflow_->look(space_, parameters, range);
  if (measures_noise() && range.first < parameters.trained_size())
    noise_scale_.look(square_of(parameters.gradients(range)));
  gradient_sum_->ready(space_, range.count);
}

/// All of it is.
void Trainer::sum_final(std::int64_t examples) {
  if (scaler_) overflow_->end_sum();
  if (measures_noise()) noise_scale_.end_small_batch(examples);
  votes_ = own_votes();
  if (votes_travel()) votes_.put(space_, model_->parameters().riders(), sums_->sums());
  gradient_sum_->shard_done(space_);
}

void Trainer::reduce_gradients() {
  gradient_sum_->finish(space_);
  if (votes_travel()) votes_ = StepVotes::read(space_, model_->parameters().riders());
}

bool Trainer::measures_noise() const {
  return (comm_.size() > 1 || cut_.separate) && state_.step % NoiseScale::every == 0;
}

void Trainer::update_parameters(double examples_in_step) {
  ParameterBuffer& parameters = model_->parameters();
  const std::int64_t taken = state_.step - state_.skipped_steps;
  optimizer_->step(space_, parameters,
                   {.learning_rate = learning_rate(taken),
                    .number = taken + 1,
                    .gradient_scale = gradient_scale_->compute(space_, parameters, gradient_factor_)});
  parameters.update_statistics(space_, 1 / examples_in_step);
}

/// What becomes of the step whose gradients are there; the same on all ranks.
Trainer::Outcome Trainer::judge(double loss) {
  const bool overflows = scaler_ && overflow_->found(space_, model_->parameters());
  const double scale = scaler_ ? scaler_->scale() : 1;
  if (overflows && scaler_->at_floor()) {
    failure_ = fmt::format(
        "step {}: {} at the smallest loss scale, {:g} (precision.loss_scale.floor); go on from the checkpoint of "
        "the step before, with a smaller learning rate or with precision.compute bf16",
        state_.step + 1, overflow_->verdict(space_, comm_), scale);
    return Outcome::impossible;
  }
  const std::string anomaly = loss_watch_ && !overflows ? loss_watch_->look(loss) : "";
  if (!anomaly.empty()) {
    failure_ = fmt::format("step {}: {}", state_.step + 1, anomaly);
    if (loss_watch_->action() == LossWatchConfig::Action::stop || !loss_watch_->may_go_on()) {
      failure_ += fmt::format(
          " (loss_watch; {} such steps before); go on from the checkpoint of the step before, with a smaller learning "
          "rate or another loss_watch.on_anomaly",
          loss_watch_->state().anomalies);
      return Outcome::impossible;
    }
    loss_watch_->count();
    if (loss_watch_->action() == LossWatchConfig::Action::rollback) return Outcome::goes_back;
  }
  if (scaler_) {
    scaler_->update(overflows);
    state_.loss_scaler = scaler_->state();
  }
  if (overflows)
    return leave_out(
        fmt::format("{}; loss scale {:g} → {:g}", overflow_->verdict(space_, comm_), scale, scaler_->scale()));
  return anomaly.empty() ? Outcome::taken : leave_out(anomaly);
}

Trainer::Outcome Trainer::leave_out(const std::string& why) {
  ++state_.skipped_steps;
  log("step {:>7}  left out: {}", state_.step + 1, why);
  return Outcome::left_out;
}

/// This rank's wishes after this step.
StepVotes Trainer::own_votes() {
  StepVotes votes;
  votes.stop = wants_to_stop(false);
  const double minutes = config_.checkpoint.every_minutes;
  votes.checkpoint = comm_.is_root() && minutes > 0 && since_checkpoint_.seconds() >= 60 * minutes;
  return votes;
}

bool Trainer::wants_to_stop(bool saved) {
  if (stop_reason_.empty()) stop_reason_ = stop_request_.reason(seconds_to_stop(saved));
  return !stop_reason_.empty();
}

/// That this step and, unless it is `saved` already, a checkpoint may take, by what they have taken so far.
double Trainer::seconds_to_stop(bool saved) const {
  if (!writer_) return 0;
  constexpr double margin = 2, bytes_a_second = 100e6;
  const double longest = writer_->times().longest;
  const double checkpoint = longest > 0 ? longest : static_cast<double>(state_bytes()) / bytes_a_second;
  return margin + 2 * (longest_step_ + (saved ? 0 : checkpoint));
}

StepContext Trainer::context(std::int64_t first_example, const Piece& piece) const {
  return {.space = space_,
          .training = true,
          .seed = static_cast<std::uint64_t>(config_.run.seed),
          .step = state_.step,
          .first_example = first_example + piece.first,
          .gradients = piece.begins ? Store::replace : Store::add,
          .same_parameters = piece.first > 0};
}

std::int64_t Trainer::total_steps() const {
  const std::int64_t examples = data_.train->size(), batch = config_.batch.global;
  const std::int64_t steps_per_epoch = config_.data.drop_last ? examples / batch : (examples + batch - 1) / batch;
  const std::int64_t endless = std::numeric_limits<std::int64_t>::max();
  return std::min(config_.run.steps.value_or(endless),
                  config_.run.epochs ? *config_.run.epochs * steps_per_epoch : endless);
}

double Trainer::learning_rate(std::int64_t step) const {
  return config_.optimizer.learning_rate() * config_.schedule.factor(step, total_steps());
}

bool Trainer::finished() const {
  return state_.step >= total_steps() || (config_.run.has_target && state_.target_reached);
}

ExitStatus Trainer::run() {
  log_banner();
  if (complete_) {
    log("{} is already at step {}: nothing is left to do.", folder_.resumed_from(), state_.step);
    return ExitStatus::done;
  }
  start_seconds_ = seconds_since_process_start();
  watchdog_.rest(false);
  for (;;) {
    if (evaluation_due()) {  // which a run that was stopped has left to this one
      if (!evaluate_and_log()) return stop();
      if (writer_) writer_->set_written_step(-1);  // that checkpoint does not know of it
    }
    if (finished()) break;
    const Timer timer;
    train_step();
    space_.fence("lockstep::step");
    if (outcome_ == Outcome::impossible) give_up();
    if (outcome_ == Outcome::goes_back) {
      roll_back();
      continue;
    }
    after_step(timer.seconds());
    if (votes_.stop && (!finished() || evaluation_due())) return stop();
  }
  // What is logged from here on is beyond the schedule: a run that goes on from this checkpoint drops it,
  // so that its curves are those of a run that never stopped.
  finish_checkpoints();
  if (state_.step == total_steps() && state_.record && state_.record->step == state_.step && !state_.record->logged)
    log_step();
  if ((!validation_metrics_ || state_.evaluated_step != state_.step) && !evaluate_and_log()) return stop();
  write_summary(config_.run.has_target && state_.target_reached ? "target_reached" : "done");
  stop_request_.done();
  watchdog_.rest(true);
  return ExitStatus::done;
}

/// The step cannot be done, and the state is that before it.
void Trainer::give_up() {
  finish_checkpoints();
  throw SharedError(ExitStatus::internal, failure_);
}

/// Somebody wishes so.
ExitStatus Trainer::stop() {
  finish_checkpoints();
  const std::vector<std::string> reasons = comm_.gather(
      stop_reason_.empty() ? "" : fmt::format("{} (rank {} on {})", stop_reason_, comm_.rank(), host_name()));
  write_summary(stopped_status);
  watchdog_.rest(true);
  stop_request_.done();
  if (!comm_.is_root()) return ExitStatus::stopped_early;
  log("stopped at step {} of {}: {}; {} goes on from there", state_.step, total_steps(),
      *std::ranges::find_if(reasons, [](const std::string& reason) { return !reason.empty(); }),
      folder_.goes_on_by_itself() ? "the same command" : "this deck with run.resume=auto");
  return ExitStatus::stopped_early;
}

void Trainer::after_step(double seconds) {
  watchdog_.be_patient(false);
  heartbeat().step = state_.step + 1;
  longest_step_ = std::max(longest_step_, seconds);
  progress_.step_done(seconds, gradient_sum_->take_exposed_seconds(), examples_in_step_);
  if (progress_.times().count() == 1) watchdog_.median_step(seconds);
  if (audit_ && state_.step % config_.parallel.audit_every == 0) compare_replicas();
  const bool logged = state_.step % config_.run.log_every == 0;
  if (logged || state_.step == total_steps()) state_.record = step_record(logged);
  if (logged) log_step();
  if ((!votes_.stop || finished()) && evaluation_due() && !evaluate_and_log()) votes_.stop = true;
  if (checkpoint_due()) write_checkpoint();
}

Metrics Trainer::step_metrics() { return sums_->reduce(space_, comm_, *loss_, examples_in_step_); }

StepRecord Trainer::step_record(bool logged) {
  const StepRecord record{
      .step = state_.step,
      .metrics = step_metrics(),
      .gradient_norm = std::sqrt(square_of(model_->parameters().trained_gradients())) * gradient_factor_,
      .left_out = outcome_ == Outcome::left_out,
      .logged = logged};
  // The loss alone does not tell: a library's ReLU may turn what is not a number into zero.
  if ((!record.left_out && (!std::isfinite(record.metrics.loss) || !std::isfinite(record.gradient_norm))) ||
      !std::isfinite(square_of(model_->parameters().trained_values())))
    warn(
        "step {}: the loss, its gradient or the parameters are not finite; go back to a checkpoint, with a smaller "
        "learning rate",
        state_.step);
  return record;
}

/// The step of the state's record.
void Trainer::log_step() {
  const StepRecord& record = *state_.record;
  progress_.log({.number = record.step,
                 .epoch = epoch(),
                 .left = total_steps() - record.step,
                 .metrics = record.metrics,
                 .gradient_norm = record.gradient_norm,
                 .learning_rate = learning_rate(std::max<std::int64_t>(0, state_.step - state_.skipped_steps - 1)),
                 .skipped = record.left_out,
                 .loss_scale = scaler_ ? std::optional(scaler_->scale()) : std::nullopt,
                 .noise_scale = noise_scale_.value()});
  watchdog_.median_step(progress_.times().quantile(0.5));
}

bool Trainer::evaluation_due() const {
  return data_.validation && config_.run.evaluate_every > 0 && state_.position.epoch > 0 && ended_epoch() &&
         state_.position.epoch % config_.run.evaluate_every == 0 && state_.evaluated_step != state_.step;
}

/// False if somebody wishes the run to stop first: then the run that goes on evaluates.
bool Trainer::evaluate_and_log() {
  if (!data_.validation) return true;
  const PhaseClock::Scope phase(clock_, StepPhase::evaluation);
  // About twice a second: a batch takes less than the longest step.
  constexpr double asks_every = 0.5;
  const std::int64_t longest_us = comm_.max(std::llround(1e6 * longest_step_));  // 0: this process has done no step
  const std::int64_t batches = longest_us > 0 ? 1 + static_cast<std::int64_t>(1e6 * asks_every) / longest_us : 1;
  const bool saved = writer_ && writer_->written_step() == state_.step;
  const auto stops = [&, done = std::int64_t{0}]() mutable {
    return ++done % batches == 0 && comm_.max(wants_to_stop(saved) ? 1 : 0) != 0;
  };
  const std::optional<Metrics> result = evaluate(space_, comm_, *model_, *loss_, *data_.validation, *uploader_, *sums_,
                                                 piece_, stops);
  if (!result) return false;
  const Metrics& metrics = validation_metrics_.emplace(*result);
  const bool again = state_.evaluated_step ==
                     state_.step;  // this process has not seen the result, but its row is there
  state_.evaluated_step = state_.step;
  progress_.log_validation(state_.step, epoch(), metrics, again);
  if (config_.run.has_target)
    state_.target_reached = config_.run.target_metric == RunOptions::Metric::validation_loss
                                ? metrics.loss <= config_.run.target_value
                                : metrics.accuracy.value_or(0) >= config_.run.target_value;
  return true;
}

bool Trainer::checkpoint_due() const {
  const std::int64_t steps = config_.checkpoint.every_steps;
  return votes_.checkpoint || (steps > 0 && state_.step % steps == 0);
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
  watchdog_.be_patient(true);  // rank 0 may have to wait for the disk
  if (!writer_) return;
  const std::span<std::byte> memory = writer_->memory(state_bytes());
  writer_->write_behind(state_.step, snapshot(kernels_run_on_host ? std::span<std::byte>() : memory),
                        [this] { progress_.file()->flush_to_disk(); });
}

/// Returns when the checkpoint of this step is on disk.
void Trainer::finish_checkpoints() {
  const PhaseClock::Scope phase(clock_, StepPhase::checkpoint);
  compare_replicas();
  comm_.together([&] {
    if (!writer_) return;
    writer_->wait();
    if (writer_->written_step() != state_.step)
      writer_->write_now(state_.step, snapshot({}), [this] { progress_.file()->flush_to_disk(); });
  });
}

Checkpoint Trainer::snapshot(std::span<std::byte> memory) {
  state_.noise = noise_scale_.state();
  if (loss_watch_) state_.loss_watch = loss_watch_->state();
  state_.metrics_rows = progress_.file()->rows();
  return make_checkpoint(space_, state_, {{"deck", deck_}, {"provenance", provenance_}}, model_->parameters(),
                         *optimizer_, memory);
}

std::size_t Trainer::state_bytes() const { return checkpoint_bytes(model_->parameters(), *optimizer_); }

/// To the newest checkpoint, and on from there with the examples in another order.
void Trainer::roll_back() {
  const PhaseClock::Scope phase(clock_, StepPhase::set_up);
  const std::int64_t rollbacks = state_.rollbacks + 1, anomalies = loss_watch_->state().anomalies;
  std::optional<RunFolder::Found> found;
  comm_.together([&] {
    if (!writer_) return;
    writer_->wait();
    // If one had to be gone back to twice, without another having been written meanwhile, it is none of the good ones.
    found = folder_.newest_checkpoint(went_back_to_);
  });
  if (comm_.max(found ? 1 : 0) == 0) {
    failure_ +=
        "; there is no checkpoint to go back to (loss_watch.on_anomaly is rollback); go on from the checkpoint of the step "
        "before, with a smaller learning rate";
    give_up();
  }
  loader_.reset();
  comm_.together([&] {
    if (!writer_) return;
    resume(found->checkpoint, found->file);
    went_back_to_ = checkpoint_name(state_.step);
    set_aside_checkpoints_after(folder_.checkpoints(), state_.step);  // what is there is of no use
    point_latest(folder_.checkpoints(), went_back_to_);
    writer_->set_written_step(state_.step);
    progress_.open(folder_.metrics(), state_.metrics_rows);
  });
  share_state();
  state_.rollbacks = rollbacks;
  audited_step_ = -1;
  loss_watch_.emplace(config_.loss_watch, LossWatch::State{anomalies, state_.loss_watch.losses});
  comm_.together([&] { make_loader(); });
  log("{}; goes back to step {}, and on with other examples", failure_, state_.step);
}

void Trainer::write_summary(const std::string& status) {
  Summary summary;
  summary.status = status;
  summary.steps = state_.step;
  summary.epochs = state_.position.epoch;
  summary.ranks = comm_.size();
  summary.threads = ExecSpace().concurrency();
  if (state_.record) summary.train = state_.record->metrics;
  summary.validation = validation_metrics_;
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
  summary.peak_rss_bytes = comm_.max(peak_rss_bytes());
  summary.resumed_from = folder_.resumed_from();
  summary.provenance = provenance_;
  summary.deck = deck_;
  if (!comm_.is_root()) return;
  heartbeat().enter(static_cast<std::int32_t>(StepPhase::checkpoint));  // it may have to wait for the disk
  summary.checkpoints = writer_->times();
  summary.start_seconds = start_seconds_;
  try {
    folder_.write_text("summary.json", summary_json(summary));
  } catch (const Error& error) {
    if (status != stopped_status) throw;
    warn("{}; what the run goes on from is there all the same", error.what());
  }
  log("{}", summary_text(summary, folder_.metrics().parent_path().string()));
}

void Trainer::log_banner() const {
  const std::int64_t steps = total_steps();
  log("{}: {} parameters, {} training examples, batch {} = {} rank{} × {}, {}, {} with {} thread{} a rank, {} steps",
      config_.run.name, model_->graph().parameter_count(), data_.train->size(), config_.batch.global, comm_.size(),
      comm_.size() == 1 ? "" : "s", share_, precision_names[static_cast<std::size_t>(config_.precision.compute)],
      ExecSpace::name(), ExecSpace().concurrency(), ExecSpace().concurrency() == 1 ? "" : "s", steps);
  if (!folder_.resumed_from().empty() && !finished())
    log("goes on from {} at step {}", folder_.resumed_from(), state_.step);
}

}  // namespace lockstep
