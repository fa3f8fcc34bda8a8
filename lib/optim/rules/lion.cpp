// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include "optim/rules/step_kernel.hpp"

namespace lockstep {

/// Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2: u = sign(β₁·m + (1 − β₁)·g);
/// p ← p − lr·(u + weight_decay·p); m ← β₂·m + (1 − β₂)·g.
class Lion final : public Optimizer {
 public:
  Lion(const LionConfig& config, const ParameterBuffer& parameters)
      : Optimizer(config, parameters), betas_(config.betas) {}

  StepCoefficients coefficients(const RateOfStep& rate) const override { return {rate.learning_rate}; }

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  std::vector<double> betas_;
};

namespace {

template <class T>
struct LionRule {
  T rate, decay, beta1, beta1_rest, beta2, beta2_rest;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T g, T* average) const {
    const T direction = beta1 * average[0] + beta1_rest * g;
    average[0] = beta2 * average[0] + beta2_rest * g;
    T sign = direction > T(0) ? T(1) : direction;  // NaN stays NaN
    sign = sign < T(0) ? T(-1) : sign;
    return p - rate * (sign + decay * p);
  }
};

struct MakeLionRule {
  double beta1, beta2;
  template <class T>
  KOKKOS_INLINE_FUNCTION LionRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {.rate = static_cast<T>(group.learning_rate_scale * c[0]),
            .decay = static_cast<T>(group.weight_decay),
            .beta1 = static_cast<T>(beta1),
            .beta1_rest = static_cast<T>(1 - beta1),
            .beta2 = static_cast<T>(beta2),
            .beta2_rest = static_cast<T>(1 - beta2)};
  }
};

}  // namespace

LionConfig::LionConfig() {
  learning_rate = 1e-4;
  exclude_bias_and_norm = true;
}

void LionConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.numbers("betas", betas, fraction_below_one,
                 "shares of the running average of the gradient that are kept: in the direction of the step, and in "
                 "the average for the next one");
  fields.check(betas.size() == 2, "betas", "must have two entries; write [0.9, 0.99]");
}

std::unique_ptr<Optimizer> LionConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Lion>(*this, parameters);
}

void Lion::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  rule_step<1>(space, "lockstep::lion::step", tables(), parameters, step, MakeLionRule{betas_[0], betas_[1]});
}

}  // namespace lockstep
