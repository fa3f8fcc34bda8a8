// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/adamw.hpp"

#include <cmath>

#include "optim/step_kernel.hpp"

namespace lockstep {
namespace {

/// Places in StepCoefficients: 1 − lr·weight_decay, lr / (1 − β₁ᵗ), √(1 − β₂ᵗ).
enum Coefficient : std::size_t { decay, rate, root };

/// What one step needs, for all parameters.
template <class T>
struct AdamWStep {
  T decay;
  T beta1_rest, beta2, beta2_rest;
  T rate;
  T root;
  T epsilon;
};

template <class T, class Copy>
void adamw_step(const ExecSpace& space, std::int64_t count, const AdamWStep<T>& step, const double* gradient_scale,
                const T* gradient, T* exp_avg, T* exp_avg_sq, T* p, Copy* copy, const Tensor& nonfinite) {
  const AdamWStep<T> s = step;
  for_parameters(
      space, "lockstep::adamw::step", count, nonfinite, KOKKOS_LAMBDA(const std::int64_t i, int& bad) {
        const T g = static_cast<T>(*gradient_scale) * gradient[i];
        const T m = exp_avg[i] + s.beta1_rest * (g - exp_avg[i]);
        const T v = s.beta2 * exp_avg_sq[i] + s.beta2_rest * g * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        store_parameter(i, p[i] * s.decay - s.rate * m / (Kokkos::sqrt(v) / s.root + s.epsilon), p, copy, bad);
      });
}

}  // namespace

void AdamWConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.numbers("betas", betas, fraction_below_one,
                 "shares that are kept of the averages of the gradient and of its square");
  fields.check(betas.size() == 2, "betas", "must have two entries; write [0.9, 0.999]");
  fields.number("epsilon", epsilon, positive, "added to the root of the average square");
  fields.number("weight_decay", weight_decay, not_negative,
                "times the learning rate, the share of each parameter that a step takes away");
}

std::unique_ptr<Optimizer> AdamWConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<AdamW>(*this, parameters);
}

AdamW::AdamW(const AdamWConfig& config, const ParameterBuffer& parameters) : Optimizer(parameters), config_(config) {
  const std::int64_t count = parameters.layout().owned_count();
  averages_ = Buffer("lockstep::adamw_averages", 2 * static_cast<std::size_t>(count) * size_of(parameters.dtype()));
  std::size_t offset = 0;
  for (const auto& name : config.state_names()) {
    states_.push_back({name, averages_.tensor(offset, parameters.dtype(), {count})});
    offset += states_.back().values.bytes();
  }
}

StepCoefficients AdamW::coefficients(double learning_rate, std::int64_t number) const {
  const auto kept = [&](double beta) { return std::pow(beta, static_cast<double>(number)); };
  StepCoefficients coefficients{};
  coefficients[decay] = 1 - learning_rate * config_.weight_decay;
  coefficients[rate] = learning_rate / (1 - kept(config_.betas[0]));
  coefficients[root] = std::sqrt(1 - kept(config_.betas[1]));
  return coefficients;
}

void AdamW::step(const ExecSpace& space, ParameterBuffer& parameters, const OptimizerStep& step) {
  const double beta1 = config_.betas[0], beta2 = config_.betas[1];
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    const AdamWStep<T> numbers{.decay = static_cast<T>(step.coefficients[decay]),
                               .beta1_rest = static_cast<T>(1 - beta1),
                               .beta2 = static_cast<T>(beta2),
                               .beta2_rest = static_cast<T>(1 - beta2),
                               .rate = static_cast<T>(step.coefficients[rate]),
                               .root = static_cast<T>(step.coefficients[root]),
                               .epsilon = static_cast<T>(config_.epsilon)};
    for (const auto& [range, first, nonfinite] : parts()) {
      adamw_step<T>(space, range.count, numbers, step.gradient_scale.as<double>(), parameters.gradients(range).as<T>(),
                    states_[0].values.as<T>() + first, states_[1].values.as<T>() + first,
                    parameters.values(range).as<T>(), copies ? copies + range.first : nullptr, nonfinite);
    }
  });
}

}  // namespace lockstep
