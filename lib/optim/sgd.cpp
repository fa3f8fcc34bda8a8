// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/sgd.hpp"

#include "optim/step_kernel.hpp"

namespace lockstep {
namespace {

template <class T, class Copy>
void plain_step(const ExecSpace& space, std::int64_t count, T rate, const double* gradient_scale, T decay,
                const T* gradient, T* p, Copy* copy, const Tensor& nonfinite) {
  for_parameters(
      space, "lockstep::sgd::step", count, nonfinite, KOKKOS_LAMBDA(const std::int64_t i, int& bad) {
        const T scale = static_cast<T>(*gradient_scale);
        store_parameter(i, p[i] - rate * (scale * gradient[i] + decay * p[i]), p, copy, bad);
      });
}

template <class T, class Copy>
void momentum_step(const ExecSpace& space, std::int64_t count, T rate, const double* gradient_scale, T decay,
                   T momentum, bool nesterov, const T* gradient, T* velocity, T* p, Copy* copy,
                   const Tensor& nonfinite) {
  // Nesterov's step takes the gradient once more.
  const T gradient_part = nesterov ? T(1) : T(0);
  const T velocity_part = nesterov ? momentum : T(1);
  for_parameters(
      space, "lockstep::sgd::momentum_step", count, nonfinite, KOKKOS_LAMBDA(const std::int64_t i, int& bad) {
        const T g = static_cast<T>(*gradient_scale) * gradient[i] + decay * p[i];
        const T v = momentum * velocity[i] + g;
        velocity[i] = v;
        store_parameter(i, p[i] - rate * (gradient_part * g + velocity_part * v), p, copy, bad);
      });
}

}  // namespace

void SgdConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.number("momentum", momentum, fraction_below_one, "share of the velocity that is kept");
  fields.boolean("nesterov", nesterov, "Nesterov's form: the step looks ahead along the velocity");
  fields.number("weight_decay", weight_decay, not_negative, "times the parameter, added to its gradient");
  fields.check(!nesterov || momentum > 0, "nesterov",
               "true without momentum (it is a form of momentum); give momentum, or remove it");
}

std::vector<std::string> SgdConfig::state_names() const {
  if (momentum == 0) return {};
  return {"velocity"};
}

std::unique_ptr<Optimizer> SgdConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Sgd>(*this, parameters);
}

Sgd::Sgd(const SgdConfig& config, const ParameterBuffer& parameters) : Optimizer(parameters), config_(config) {
  if (config.momentum == 0) return;
  const std::int64_t count = parameters.layout().owned_count();
  velocity_ = Buffer("lockstep::velocity", static_cast<std::size_t>(count) * size_of(parameters.dtype()));
  states_.push_back({config.state_names()[0], velocity_.tensor(0, parameters.dtype(), {count})});
}

StepCoefficients Sgd::coefficients(double learning_rate, std::int64_t) const { return {learning_rate}; }

void Sgd::step(const ExecSpace& space, ParameterBuffer& parameters, const OptimizerStep& step) {
  const double* scale = step.gradient_scale.as<double>();
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    const T rate = static_cast<T>(step.coefficients[0]), decay = static_cast<T>(config_.weight_decay);
    const T momentum = static_cast<T>(config_.momentum);
    for (const auto& [range, first, nonfinite] : parts()) {
      T* const values = parameters.values(range).as<T>();
      const T* const gradients = parameters.gradients(range).as<T>();
      Copy* const copy = copies ? copies + range.first : nullptr;
      if (states_.empty()) plain_step<T>(space, range.count, rate, scale, decay, gradients, values, copy, nonfinite);
      else
        momentum_step<T>(space, range.count, rate, scale, decay, momentum, config_.nesterov, gradients,
                         states_[0].values.as<T>() + first, values, copy, nonfinite);
    }
  });
}

}  // namespace lockstep
