// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include "optim/rules/step_kernel.hpp"

namespace lockstep {

/// Stochastic gradient descent in PyTorch's form: g ← g + weight_decay·p; v ← momentum·v + (1 − dampening)·g, in the
/// first step v ← g; p ← p − lr·v, or with Nesterov p − lr·(g + momentum·v).
class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const ParameterBuffer& parameters) : Optimizer(config, parameters), config_(config) {}

  StepCoefficients coefficients(const RateOfStep& rate) const override;

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  SgdConfig config_;
};

namespace {

/// Indices of StepCoefficients: lr, and the share of the gradient that the velocity takes.
enum Coefficient : std::size_t { rate, taken };

template <class T>
struct PlainRule {
  T rate, decay;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T g, T*) const { return p - rate * (g + decay * p); }
};

template <class T>
struct MomentumRule {
  T rate, decay, momentum, taken;
  T gradient_part, velocity_part;  ///< Nesterov's form adds the gradient once more
  KOKKOS_INLINE_FUNCTION T operator()(T p, T gradient, T* velocity) const {
    const T g = gradient + decay * p;
    velocity[0] = momentum * velocity[0] + taken * g;
    return p - rate * (gradient_part * g + velocity_part * velocity[0]);
  }
};

struct MakePlainRule {
  template <class T>
  KOKKOS_INLINE_FUNCTION PlainRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {static_cast<T>(group.learning_rate_scale * c[rate]), static_cast<T>(group.weight_decay)};
  }
};

struct MakeMomentumRule {
  double momentum;
  bool nesterov;
  template <class T>
  KOKKOS_INLINE_FUNCTION MomentumRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {.rate = static_cast<T>(group.learning_rate_scale * c[rate]),
            .decay = static_cast<T>(group.weight_decay),
            .momentum = static_cast<T>(momentum),
            .taken = static_cast<T>(c[taken]),
            .gradient_part = nesterov ? T(1) : T(0),
            .velocity_part = nesterov ? static_cast<T>(momentum) : T(1)};
  }
};

}  // namespace

void SgdConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.number("momentum", momentum, fraction_below_one,
                "share of the velocity that each step keeps (0: no momentum)");
  fields.number(
      "dampening", dampening, fraction_below_one,
      "share of the gradient that is not added to the velocity, except in the first step, which adds all of it");
  fields.boolean("nesterov", nesterov,
                 "whether to use Nesterov momentum, where the step looks ahead along the velocity");
  fields.check(!nesterov || momentum > 0, "nesterov",
               "has no effect without momentum (it is a form of momentum); give momentum, or remove it");
  fields.check(!nesterov || dampening == 0, "nesterov",
               "cannot be combined with dampening (Nesterov momentum has none); remove one of them");
  fields.check(dampening == 0 || momentum > 0, "dampening",
               "has no effect without momentum; give momentum, or remove it");
}

std::vector<std::string> SgdConfig::state_names() const {
  if (momentum == 0) return {};
  return {"velocity"};
}

std::unique_ptr<Optimizer> SgdConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Sgd>(*this, parameters);
}

StepCoefficients Sgd::coefficients(const RateOfStep& rate) const {
  return {rate.learning_rate, rate.number == 1 ? 1 : 1 - config_.dampening};
}

void Sgd::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  if (config_.momentum == 0)
    return rule_step<0>(space, "lockstep::sgd::step", tables(), parameters, step, MakePlainRule{});
  rule_step<1>(space, "lockstep::sgd::momentum_step", tables(), parameters, step,
               MakeMomentumRule{config_.momentum, config_.nesterov});
}

}  // namespace lockstep
