// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include "optim/rules/step_kernel.hpp"

namespace lockstep {

/// Tieleman & Hinton 2012 in PyTorch's form: g ← g + weight_decay·p; v ← α·v + (1 − α)·g²; u = g / (√v + ε); p ← p −
/// lr·u; with momentum, b ← momentum·b + u and p ← p − lr·b instead.
class Rmsprop final : public Optimizer {
 public:
  Rmsprop(const RmspropConfig& config, const ParameterBuffer& parameters)
      : Optimizer(config, parameters), config_(config) {}

  StepCoefficients coefficients(const RateOfStep& rate) const override { return {rate.learning_rate}; }

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  RmspropConfig config_;
};

namespace {

template <class T>
struct RmspropRule {
  T rate, decay, alpha, alpha_rest, epsilon;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T gradient, T* square) const {
    return p - rate * update(p, gradient, square);
  }
  KOKKOS_INLINE_FUNCTION T update(T p, T gradient, T* square) const {
    const T g = gradient + decay * p;
    square[0] = alpha * square[0] + alpha_rest * g * g;
    return g / (Kokkos::sqrt(square[0]) + epsilon);
  }
};

template <class T>
struct RmspropMomentumRule {
  RmspropRule<T> plain;
  T momentum;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T gradient, T* states) const {
    states[1] = momentum * states[1] + plain.update(p, gradient, states);
    return p - plain.rate * states[1];
  }
};

struct MakeRmspropRule {
  double alpha, epsilon;
  template <class T>
  KOKKOS_INLINE_FUNCTION RmspropRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {.rate = static_cast<T>(group.learning_rate_scale * c[0]),
            .decay = static_cast<T>(group.weight_decay),
            .alpha = static_cast<T>(alpha),
            .alpha_rest = static_cast<T>(1 - alpha),
            .epsilon = static_cast<T>(epsilon)};
  }
};

struct MakeRmspropMomentumRule {
  MakeRmspropRule plain;
  double momentum;
  template <class T>
  KOKKOS_INLINE_FUNCTION RmspropMomentumRule<T> operator()(T type, const GroupSettings& group,
                                                           const StepCoefficients& c) const {
    return {plain(type, group, c), static_cast<T>(momentum)};
  }
};

}  // namespace

void RmspropConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.number("alpha", alpha, fraction_below_one,
                "share that each step keeps of the running average of the squared gradient");
  fields.number("epsilon", epsilon, positive, "small number added to the root of the average square");
  fields.number("momentum", momentum, fraction_below_one,
                "share of the velocity that each step keeps (0: no momentum)");
}

std::vector<std::string> RmspropConfig::state_names() const {
  if (momentum == 0) return {"square_avg"};
  return {"square_avg", "velocity"};
}

std::unique_ptr<Optimizer> RmspropConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Rmsprop>(*this, parameters);
}

void Rmsprop::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  const MakeRmspropRule plain{config_.alpha, config_.epsilon};
  if (config_.momentum == 0) return rule_step<1>(space, "lockstep::rmsprop::step", tables(), parameters, step, plain);
  rule_step<2>(space, "lockstep::rmsprop::momentum_step", tables(), parameters, step,
               MakeRmspropMomentumRule{plain, config_.momentum});
}

}  // namespace lockstep
