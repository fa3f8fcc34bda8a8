// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/optimizer_steps.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

OptimizerSteps::OptimizerSteps(const TrainingConfig& config, const Communicator& comm, const Optimizer& optimizer,
                               const RunLength& length)
    : optimizer_(optimizer),
      learning_rate_(config.optimizer.learning_rate()),
      schedule_(config.schedule, length),
      coefficients_(comm,
                    [this](std::int64_t applied) {
                      // One step less is applied than the host knows where the last one was skipped; the batch is that
                      // of the next step all the same.
                      return coefficients_at(applied, std::max(applied + skipped_, done_), before_ + applied);
                    }),
      clip_norm_(config.optimizer.clip_norm()),
      table_{.first = -1},
      memory_("lockstep::step_coefficients", sizeof(CoefficientTable)) {}

StepCoefficients OptimizerSteps::coefficients_at(std::int64_t applied, std::int64_t done, std::int64_t own) const {
  return optimizer_.coefficients({.learning_rate = learning_rate(applied, done),
                                  .learning_rate_before = learning_rate_before(applied, done),
                                  .number = own + 1});
}

double OptimizerSteps::learning_rate_before(std::int64_t applied, std::int64_t done) const {
  const auto before = [](std::int64_t steps) { return std::max<std::int64_t>(1, steps) - 1; };
  return learning_rate(before(applied), before(done));
}

StepScalars OptimizerSteps::scalars(std::int64_t applied, std::optional<std::int64_t> own) const {
  const std::int64_t done = own.value_or(before_ + applied);
  return {.coefficients = coefficients_at(applied, applied, done), .first = done == 0 ? 1 : 0};
}

void OptimizerSteps::forget() {
  coefficients_.forget();
  if (own_coefficients_) own_coefficients_->forget();
  table_.first = -1;
}

void OptimizerSteps::go_to(std::int64_t done, std::int64_t skipped) {
  done_ = done;
  if (std::exchange(skipped_, skipped) != skipped) forget();
}

void OptimizerSteps::provide(const ExecSpace& space, std::int64_t done, std::int64_t skipped, std::int64_t untaken) {
  go_to(done, skipped);
  if (untaken > 0 && schedule_.batch_factor(done) != schedule_.batch_factor(done - 1)) forget();
  put(space, coefficients_.cover(done - skipped - untaken, 2), 0);
}

void OptimizerSteps::provide(const ExecSpace& space, std::int64_t done, std::int64_t skipped, OwnSteps& own) {
  go_to(done, skipped);
  const std::int64_t applied = done - skipped, missed = before_ + applied - own.done();
  if (!own_coefficients_)
    own_coefficients_.emplace(own.ranks(), [this](std::int64_t step) {
      return coefficients_at(step, step + skipped_, before_ + step - missed_);
    });
  if (std::exchange(missed_, missed) != missed) own_coefficients_->forget();
  put(space, own_coefficients_->cover(applied, 1), missed);
}

void OptimizerSteps::put(const ExecSpace& space, const SharedCoefficients::Stretch& known, std::int64_t missed) {
  static_assert(CoefficientTable::size == SharedCoefficients::steps_at_once);
  if (table_.first == known.first && table_.before == before_ && missed_in_table_ == missed) return;
  table_.first = known.first;
  table_.before = before_;
  missed_in_table_ = missed;
  std::ranges::copy(known.values, table_.of_step);
  copy_from_host(space, &table_, memory_.tensor(0, DType::u8, {sizeof(CoefficientTable)}));
}

UpdateOptions OptimizerSteps::update_options(const ExecSpace& space, ParallelStrategy& strategy) {
  if (clip_norm_ > 0 || optimizer_.overwrites_gradients()) square_ = strategy.gradient_square(space);
  return {.coefficients = reinterpret_cast<const CoefficientTable*>(memory_.data()),
          .square = clip_norm_ > 0 ? square_.as<const double>() : nullptr,
          .clip_norm = clip_norm_};
}

}  // namespace lockstep
