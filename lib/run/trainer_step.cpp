// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a Trainer does in a step; the rest is in trainer.cpp and trainer_set_up.cpp.
#include <cmath>
#include <utility>

#include "base/log.hpp"
#include "run/trainer.hpp"

namespace lockstep {

void Trainer::train_step() {
  const HostBatch* batch = nullptr;
  {
    const PhaseClock::Scope phase(clock_, StepPhase::data);
    batch = loader_->next();
  }
  nonfinite_->begin_step(batch->plan.examples);
  sums_->clear(space_);
  // Scaled, the loss is a mean already, so that 16 bits hold the same numbers whatever the batch.
  const double examples_in_step = static_cast<double>(batch->plan.global_examples);
  const double loss_scale = scaler_ ? scaler_->scale() / examples_in_step : 1.0;
  if (scaler_) overflow_->begin(space_);
  for (const MicroBatch& micro_batch : micro_batches_of(partition_, batch->plan.global_examples, comm_.rank())) {
    if (micro_batch.begins && micro_batch.count == 0) fill_zero(space_, model_->parameters().gradients());
    const StepContext step = context(batch->plan.first, micro_batch);
    DeviceBatch examples;
    {
      const PhaseClock::Scope phase(clock_, StepPhase::data);
      examples = uploader_->upload(space_, *batch, micro_batch.first, micro_batch.count);
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::forward);
      const Tensor outputs = model_->forward(step, examples.inputs);
      if (micro_batch.count > 0)
        sums_->add(space_, *loss_, outputs, examples.targets, model_->output_gradient(), loss_scale);
      // A device would have nothing to do while the host reads the loss: there it is read behind the backward pass.
      if (micro_batch.is_last && kernels_run_on_host) consensus_->begin(own_vote());
    }
    {
      const PhaseClock::Scope phase(clock_, StepPhase::backward);
      model_->backward(step, examples.inputs, [&](ParameterRange final) {
        if (micro_batch.ends) gradients_final(final);
      });
    }
    if (micro_batch.ends) sum_final(micro_batch.examples);
  }
  if (!kernels_run_on_host) consensus_->begin(own_vote());
  {
    const PhaseClock::Scope phase(clock_, StepPhase::reduce);
    reduce_gradients();
  }
  {
    const PhaseClock::Scope phase(clock_, StepPhase::optimizer);
    gradient_factor_ = 1 / (examples_in_step * loss_scale);
    const double loss = vote_.loss / examples_in_step;
    outcome_ = judge(std::isnan(loss) ? std::abs(loss) : loss);  // whose sign means nothing, and would be printed
    if (writer_) writer_->wait_for_snapshot();                   // of the parameters, for its copy
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
  if (scaler_) overflow_->inspect(space_, parameters, range);
  if (measures_noise() && range.first < parameters.trained_size())
    noise_scale_.add_small_batch(square_of(parameters.gradients(range)));
  reducer_->ready(space_, range.count);
  consensus_->advance();
}

/// All of it is.
void Trainer::sum_final(std::int64_t examples) {
  if (scaler_) overflow_->end_sum();
  if (measures_noise()) noise_scale_.end_small_batch(examples);
  reducer_->shard_done(space_);
}

void Trainer::reduce_gradients() {
  reducer_->finish(space_);
  vote_ = consensus_->finish();
}

bool Trainer::measures_noise() const {
  return (comm_.size() > 1 || partition_.separate) && state_.step % NoiseScale::every == 0;
}

void Trainer::update_parameters(double examples_in_step) {
  ParameterBuffer& parameters = model_->parameters();
  const std::int64_t taken = state_.step - state_.skipped_steps;
  optimizer_->step(space_, parameters,
                   {.coefficients = coefficients_->at(taken),
                    .gradient_scale = gradient_scale_->compute(space_, parameters, gradient_factor_)});
  parameters.update_statistics(space_, 1 / examples_in_step);
}

/// What becomes of the step whose gradients are there; the same on all ranks.
Trainer::Outcome Trainer::judge(double loss) {
  if (vote_.bad_parameters) return act_on_bad_parameters(state_.step, NonfiniteReport::Batch::of_the_step_before);
  const bool overflows = scaler_ && overflow_->any_overflow(space_, model_->parameters());
  const double scale = scaler_ ? scaler_->scale() : 1;
  if (overflows && scaler_->at_floor()) {
    failure_ = fmt::format(
        "step {}: {} at the smallest loss scale, {:g} (precision.loss_scale.floor); go on from the checkpoint of "
        "the step before, with a smaller learning rate or with precision.compute bf16",
        state_.step + 1, overflow_->describe(space_, comm_), scale);
    return Outcome::impossible;
  }
  const std::string anomaly = loss_watch_ && !overflows ? loss_watch_->inspect(loss) : "";
  if (!anomaly.empty()) {
    failure_ = fmt::format("step {}: {}", state_.step + 1, anomaly);
    if (const Outcome outcome = act_on_anomaly(); outcome != Outcome::left_out) return outcome;
  }
  if (!loss_watch_ && !overflows && !loss_is_of_use(loss)) return Outcome::impossible;
  if (scaler_) {
    scaler_->update(overflows);
    state_.loss_scaler = scaler_->state();
  }
  if (overflows)
    return leave_out(
        fmt::format("{}; loss scale {:g} → {:g}", overflow_->describe(space_, comm_), scale, scaler_->scale()));
  return anomaly.empty() ? Outcome::taken : leave_out(anomaly);
}

/// What loss_watch wants; `failure_` says what it has found.
Trainer::Outcome Trainer::act_on_anomaly() {
  if (loss_watch_->action() == LossWatchConfig::Action::stop || !loss_watch_->may_go_on()) {
    failure_ += fmt::format(
        " (loss_watch; {} such steps before); go on from the newest checkpoint, with a smaller learning rate or another "
        "loss_watch.on_anomaly",
        loss_watch_->state().anomalies);
    return Outcome::impossible;
  }
  loss_watch_->count();
  return loss_watch_->action() == LossWatchConfig::Action::rollback ? Outcome::goes_back : Outcome::left_out;
}

/// Unless the deck says otherwise (loss_watch), a run ends where its parameters would no longer be finite, or at the
/// second loss in a row that is not.
bool Trainer::loss_is_of_use(double loss) {
  const bool lost = !std::isfinite(loss), lost_before = std::exchange(state_.loss_was_nonfinite, lost);
  if (!lost) return true;
  const std::string gradients = nonfinite_->gradients(space_);
  const std::string inputs = nonfinite_->inputs(NonfiniteReport::Batch::of_this_step);
  const std::string found = fmt::format("step {}: the loss is {}{}; {}", state_.step + 1, loss,
                                        !gradients.empty()
                                            ? fmt::format(", and so would parameters be: {} is not finite", gradients)
                                        : lost_before ? ", as in the step before"
                                                      : "",
                                        inputs);
  if (gradients.empty() && !lost_before) {
    warn("{}; the run ends if the next loss is not finite either", found);
    return true;
  }
  failure_ =
      found +
      "; the step is not done: go on from the checkpoint before it, with a smaller learning rate, optimizer.clip_norm, or "
      "other data";
  return false;
}

/// Step number `step` has left parameters that are not finite.
Trainer::Outcome Trainer::act_on_bad_parameters(std::int64_t step, NonfiniteReport::Batch batch) {
  const std::string layers = nonfinite_->parameters(space_), inputs = nonfinite_->inputs(batch);
  failure_ = fmt::format("step {}: {} are not finite after its update; {}", step, layers, inputs);
  if (loss_watch_ && loss_watch_->rolls_back()) {
    loss_watch_->count();
    return Outcome::goes_back;
  }
  failure_ +=
      "; they are not written: go on from the newest checkpoint, with a smaller learning rate, optimizer.clip_norm, or other "
      "data";
  return Outcome::impossible;
}

/// Whether the last update has left them finite; else `outcome_` says what follows. Collective; in a step, the next
/// one's sums tell it.
bool Trainer::parameters_are_of_use() {
  if (comm_.all_reduce_max(nonfinite_->parameters_are_finite(space_, optimizer_->nonfinite()) ? 0 : 1) == 0)
    return true;
  vote_.bad_parameters = true;
  outcome_ = act_on_bad_parameters(state_.step, NonfiniteReport::Batch::of_this_step);
  return false;
}

Trainer::Outcome Trainer::leave_out(const std::string& why) {
  ++state_.skipped_steps;
  log("step {:>7}  left out: {}", state_.step + 1, why);
  return Outcome::left_out;
}

/// Waits for the device, which has computed the loss.
StepVote Trainer::own_vote() {
  std::int32_t nonfinite = 0;
  copy_to_host(space_, optimizer_->nonfinite(), &nonfinite);
  const double minutes = config_.checkpoint.every_minutes;
  return {.stop = wants_to_stop(false),
          .checkpoint = comm_.is_root() && minutes > 0 && since_checkpoint_.seconds() >= 60 * minutes,
          .bad_parameters = nonfinite != 0,
          .loss = sums_->loss(space_)};
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

StepContext Trainer::context(std::int64_t first_example, const MicroBatch& micro_batch) const {
  return {.space = space_,
          .training = true,
          .seed = static_cast<std::uint64_t>(config_.run.seed),
          .step = state_.step,
          .first_example = first_example + micro_batch.first,
          .gradients = micro_batch.begins ? Store::replace : Store::add,
          .same_parameters = micro_batch.first > 0};
}

}  // namespace lockstep
