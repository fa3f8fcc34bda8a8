// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include <cmath>

#include "optim/rules/step_kernel.hpp"

namespace lockstep {

/// Adam (Kingma & Ba 2015) in PyTorch's form: m ← m + (1 − β₁)·(g − m); v ← β₂·v + (1 − β₂)·g²; p ← p − lr/(1 − β₁ᵗ) ·
/// m / (√v / √(1 − β₂ᵗ) + ε) in step t, counted from 1. Weight decay comes first: g ← g + weight_decay·p, or decoupled
/// (AdamW, Loshchilov & Hutter 2019) p ← p·(1 − lr·weight_decay).
class Adam final : public Optimizer {
 public:
  enum class Decay { in_gradient, decoupled };
  Adam(const AdamOptions& config, Decay decay, const ParameterBuffer& parameters)
      : Optimizer(config, parameters), betas_(config.betas), epsilon_(config.epsilon), decay_(decay) {}

  StepCoefficients coefficients(const RateOfStep& rate) const override;

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  std::vector<double> betas_;
  double epsilon_;
  Decay decay_;
};

namespace {

/// Indices of StepCoefficients: lr, 1 − β₁ᵗ, √(1 − β₂ᵗ).
enum Coefficient : std::size_t { rate, mean_share, root_share };

/// Adam's rule with decoupled decay (`kept` < 1, `decay` = 0) or with decay in the gradient (`kept` = 1).
template <class T>
struct AdamRule {
  T kept;   ///< share of the parameter that decoupled decay keeps
  T decay;  ///< weight decay that is added to the gradient
  T beta1_rest, beta2, beta2_rest;
  T rate;
  T root;
  T epsilon;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T gradient, T* averages) const {
    const T g = gradient + decay * p;
    const T m = averages[0] + beta1_rest * (g - averages[0]);
    const T v = beta2 * averages[1] + beta2_rest * g * g;
    averages[0] = m;
    averages[1] = v;
    return p * kept - rate * m / (Kokkos::sqrt(v) / root + epsilon);
  }
};

struct MakeAdamRule {
  bool decoupled;
  double beta1, beta2, epsilon;
  template <class T>
  KOKKOS_INLINE_FUNCTION AdamRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    const double learning_rate = group.learning_rate_scale * c[rate];
    return {.kept = static_cast<T>(decoupled ? 1 - learning_rate * group.weight_decay : 1),
            .decay = static_cast<T>(decoupled ? 0 : group.weight_decay),
            .beta1_rest = static_cast<T>(1 - beta1),
            .beta2 = static_cast<T>(beta2),
            .beta2_rest = static_cast<T>(1 - beta2),
            .rate = static_cast<T>(learning_rate / c[mean_share]),
            .root = static_cast<T>(c[root_share]),
            .epsilon = static_cast<T>(epsilon)};
  }
};

}  // namespace

void AdamOptions::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.numbers("betas", betas, fraction_below_one,
                 "shares that each step keeps of the running averages of the gradient and of its square");
  fields.check(betas.size() == 2, "betas", "must have two entries; write [0.9, 0.999]");
  fields.number("epsilon", epsilon, positive, "small number added to the root of the average square");
}

AdamWConfig::AdamWConfig() {
  weight_decay = 0.01;
  exclude_bias_and_norm = true;
}

std::unique_ptr<Optimizer> AdamConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Adam>(*this, Adam::Decay::in_gradient, parameters);
}

std::unique_ptr<Optimizer> AdamWConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Adam>(*this, Adam::Decay::decoupled, parameters);
}

StepCoefficients Adam::coefficients(const RateOfStep& rate) const {
  const auto rest = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(rate.number)); };
  return {rate.learning_rate, rest(betas_[0]), std::sqrt(rest(betas_[1]))};
}

void Adam::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  rule_step<2>(space, "lockstep::adam::step", tables(), parameters, step,
               MakeAdamRule{decay_ == Decay::decoupled, betas_[0], betas_[1], epsilon_});
}

}  // namespace lockstep
