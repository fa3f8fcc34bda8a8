// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include "optim/rules/step_kernel.hpp"
#include "optim/rules/trust_ratio.hpp"

namespace lockstep {

/// You et al., "Large batch training of convolutional networks", 2017: λ = η‖p‖ / (‖g‖ + weight_decay·‖p‖) for each
/// parameter; v ← momentum·v + lr·λ·(g + weight_decay·p); p ← p − v. λ is 1 for parameters without trust ratio, and if
/// a norm is zero. With momentum correction (Goyal et al. 2017) v is first multiplied by the ratio of this step's lr to
/// the previous one's, since v already contains the learning rate.
class Lars final : public Optimizer {
 public:
  Lars(const LarsConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(const RateOfStep& rate) const override;

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  LarsConfig config_;
  TrustRatios trust_;
};

namespace {

/// Indices of StepCoefficients: lr, and the momentum correction factor.
enum Coefficient : std::size_t { rate, correction };

template <class T>
struct LarsRule {
  T rate, decay, momentum, ratio;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T g, T* velocity) const {
    velocity[0] = momentum * velocity[0] + rate * ratio * (g + decay * p);
    return p - velocity[0];
  }
};

/// The trust ratio λ of a parameter.
struct LarsRatio {
  double coefficient;
  double decay[most_groups];
  bool wanted[most_groups];
  KOKKOS_INLINE_FUNCTION double operator()(int group, std::int64_t, double p_norm, double g_norm) const {
    return wanted[group] && p_norm > 0 && g_norm > 0 ? coefficient * p_norm / (g_norm + decay[group] * p_norm) : 1;
  }
};

struct MakeLarsRule {
  double momentum;
  template <class T>
  KOKKOS_INLINE_FUNCTION LarsRule<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {.rate = static_cast<T>(group.learning_rate_scale * c[rate]),
            .decay = static_cast<T>(group.weight_decay),
            .momentum = static_cast<T>(momentum * c[correction]),
            .ratio = T(1)};
  }
};

}  // namespace

LarsConfig::LarsConfig() {
  learning_rate = 1;
  exclude_bias_and_norm = true;
}

void LarsConfig::describe(Fields& fields) {
  OptimizerOptions::describe(fields);
  fields.number("momentum", momentum, fraction_below_one,
                "share of the velocity that each step keeps (0: no momentum)");
  fields.number("trust_coefficient", trust_coefficient, positive,
                "factor of the trust ratio, a parameter's norm divided by that of its gradient");
  fields.boolean(
      "momentum_correction", momentum_correction,
      "whether the velocity, which contains the learning rate, is rescaled when that changes (Goyal et al. 2017)");
}

std::unique_ptr<Optimizer> LarsConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Lars>(*this, parameters);
}

Lars::Lars(const LarsConfig& config, const ParameterBuffer& parameters)
    : Optimizer(config, parameters), config_(config), trust_(tables()) {}

StepCoefficients Lars::coefficients(const RateOfStep& rate) const {
  const bool corrects = config_.momentum_correction && rate.learning_rate_before > 0;
  return {rate.learning_rate, corrects ? rate.learning_rate / rate.learning_rate_before : 1};
}

void Lars::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  LarsRatio ratio{.coefficient = config_.trust_coefficient, .decay = {}, .wanted = {}};
  const std::vector<GroupSettings>& groups = tables().groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ratio.decay[i] = groups[i].weight_decay;
    ratio.wanted[i] = groups[i].trust_ratio;
  }
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    const auto* gradients = rules_of<T>(space, tables(), step, MakeGradientRule<Lars>{});
    squares_of_all(space, tables(), ParameterBlocks::StateUse::none, trust_.squares(), [&](const StateWindow& window) {
      block_squares(space, "lockstep::lars::norms", gradients,
                    step_arrays<0, T>(tables(), parameters, step, copies, window), trust_.squares());
    });
    trust_ratios(space, "lockstep::lars::ratios", tables(), trust_, ratio);
    step_windows<1, T>(space, "lockstep::lars::step", tables(), parameters, step, copies,
                       rules_of<T>(space, tables(), step, MakeLarsRule{config_.momentum}), trust_.ratios());
  });
}

}  // namespace lockstep
