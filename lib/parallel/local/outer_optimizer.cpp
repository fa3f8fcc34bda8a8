// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/outer_optimizer.hpp"

#include "ops/elementwise.hpp"

namespace lockstep {

int OuterOptimizer::numbers_each(const LocalConfig& config, std::int64_t replicas) {
  return config.has_momentum() ? config.updates_of_momentum(replicas) > 1 ? 2 : 1 : 0;
}

OuterOptimizer::OuterOptimizer(const LocalConfig& config, std::int64_t replicas, DType dtype, std::int64_t count)
    : config_(config),
      rate_(config.learning_rate_or_default(replicas)),
      gathers_(config.updates_of_momentum(replicas)) {
  const int states = numbers_each(config, replicas);
  for (const char* name : {config.outer == LocalConfig::Outer::slowmo ? "slow_momentum" : "velocity", "gathered"})
    if (std::ssize(states_) < states) {
      memory_.emplace_back(fmt::format("lockstep::outer_optimizer::{}", name), dtype, Shape{count});
      states_.push_back({name, memory_.back().get()});
    }
}

OuterStep OuterOptimizer::rule(double learning_rate) const {
  const double momentum = config_.momentum_or_default(), each = 1 / static_cast<double>(gathers_);
  switch (config_.outer) {
    case LocalConfig::Outer::nesterov:
    case LocalConfig::Outer::delayed_nesterov:
      return {.decay = momentum, .gain = each, .learning_rate = rate_, .direct = each, .by_velocity = momentum};
    case LocalConfig::Outer::slowmo:
      return {.decay = momentum,
              .gain = learning_rate > 0 ? 1 / learning_rate : 0,
              .learning_rate = rate_ * learning_rate,
              .direct = 0,
              .by_velocity = 1};
    default: return {.learning_rate = rate_};
  }
}

void OuterOptimizer::step(const ExecSpace& space, const Step& step, ElementRange range, const Tensor& differences,
                          const Tensor& values) const {
  OuterStep rule = this->rule(step.learning_rate);
  rule.direct *= step.share;
  if (states_.empty()) return outer_step(space, rule, differences, {}, values);
  const Tensor velocity = flat_part(states_[0].values, range);
  if (gathers_ == 1) {
    rule.gain *= step.share;
    return outer_step(space, rule, differences, velocity, values);
  }
  const Tensor gathered = flat_part(states_[1].values, range);
  accumulate(space, step.share, differences, gathered);
  if ((step.before + 1) % gathers_ != 0) return outer_step(space, rule, differences, {}, values);
  outer_step(space, rule, differences, velocity, values, gathered);
  fill_zero(space, gathered);
}

}  // namespace lockstep
