// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/rules/rules.hpp"

#include <cmath>

#include "optim/rules/step_kernel.hpp"
#include "optim/rules/trust_ratio.hpp"

namespace lockstep {

/// You et al., "Large batch optimization for deep learning", 2020, algorithm 2, with φ(z) = z: m ← m + (1 − β₁)·(g −
/// m); v ← β₂·v + (1 − β₂)·g²; u = m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + weight_decay·p; p ← p − lr·‖p‖/‖u‖·u. The
/// ratio of norms is replaced by 1 for parameters without trust ratio, and if a norm is zero.
class Lamb final : public Optimizer {
 public:
  Lamb(const LambConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(const RateOfStep& rate) const override;

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  LambConfig config_;
  TrustRatios trust_;
};

namespace {

/// Indices of StepCoefficients: lr, 1 − β₁ᵗ, √(1 − β₂ᵗ).
enum Coefficient : std::size_t { rate, mean_share, root_share };

template <class T>
struct LambUpdate {
  T decay, mean_factor, root, epsilon;
  KOKKOS_INLINE_FUNCTION T operator()(T p, const T* averages) const {
    return averages[0] * mean_factor / (Kokkos::sqrt(averages[1]) / root + epsilon) + decay * p;
  }
};

/// Updates the averages and returns the update u.
template <class T>
struct LambAverages {
  LambUpdate<T> update;
  T beta1_rest, beta2, beta2_rest;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T g, T* averages) const {
    averages[0] += beta1_rest * (g - averages[0]);
    averages[1] = beta2 * averages[1] + beta2_rest * g * g;
    return update(p, averages);
  }
};

template <class T>
struct LambRule {
  using only_reads = void;
  LambUpdate<T> update;
  T rate, ratio;
  KOKKOS_INLINE_FUNCTION T operator()(T p, T, const T* averages) const {
    return p - rate * ratio * update(p, averages);
  }
};

/// The trust ratio of a parameter, ‖p‖/‖u‖.
struct LambRatio {
  bool wanted[most_groups];
  KOKKOS_INLINE_FUNCTION double operator()(int group, std::int64_t, double p_norm, double update_norm) const {
    return wanted[group] && p_norm > 0 && update_norm > 0 ? p_norm / update_norm : 1;
  }
};

struct MakeLambUpdate {
  double epsilon;
  template <class T>
  KOKKOS_INLINE_FUNCTION LambUpdate<T> operator()(T, const GroupSettings& group, const StepCoefficients& c) const {
    return {.decay = static_cast<T>(group.weight_decay),
            .mean_factor = static_cast<T>(1 / c[mean_share]),
            .root = static_cast<T>(c[root_share]),
            .epsilon = static_cast<T>(epsilon)};
  }
};

struct MakeLambAverages {
  MakeLambUpdate update;
  double beta1, beta2;
  template <class T>
  KOKKOS_INLINE_FUNCTION LambAverages<T> operator()(T type, const GroupSettings& group,
                                                    const StepCoefficients& c) const {
    return {.update = update(type, group, c),
            .beta1_rest = static_cast<T>(1 - beta1),
            .beta2 = static_cast<T>(beta2),
            .beta2_rest = static_cast<T>(1 - beta2)};
  }
};

struct MakeLambRule {
  MakeLambUpdate update;
  template <class T>
  KOKKOS_INLINE_FUNCTION LambRule<T> operator()(T type, const GroupSettings& group, const StepCoefficients& c) const {
    return {
        .update = update(type, group, c), .rate = static_cast<T>(group.learning_rate_scale * c[rate]), .ratio = T(1)};
  }
};

}  // namespace

LambConfig::LambConfig() {
  epsilon = 1e-6;
  weight_decay = 0.01;
  exclude_bias_and_norm = true;
}

void LambConfig::describe(Fields& fields) {
  AdamOptions::describe(fields);
  fields.boolean("bias_correction", bias_correction,
                 "whether the averages are corrected for having started at 0, as in Adam");
}

std::unique_ptr<Optimizer> LambConfig::make(const ParameterBuffer& parameters) const {
  return std::make_unique<Lamb>(*this, parameters);
}

Lamb::Lamb(const LambConfig& config, const ParameterBuffer& parameters)
    : Optimizer(config, parameters), config_(config), trust_(tables()) {}

StepCoefficients Lamb::coefficients(const RateOfStep& rate) const {
  if (!config_.bias_correction) return {rate.learning_rate, 1, 1};
  const auto rest = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(rate.number)); };
  return {rate.learning_rate, rest(config_.betas[0]), std::sqrt(rest(config_.betas[1]))};
}

void Lamb::apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) {
  LambRatio ratio{};
  const std::vector<GroupSettings>& groups = tables().groups();
  for (std::size_t i = 0; i < groups.size(); ++i) ratio.wanted[i] = groups[i].trust_ratio;
  const MakeLambUpdate update{config_.epsilon};
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    const auto* averages = rules_of<T>(space, tables(), step,
                                       MakeLambAverages{update, config_.betas[0], config_.betas[1]});
    squares_of_all(space, tables(), ParameterBlocks::StateUse::change, trust_.squares(),
                   [&](const StateWindow& window) {
                     block_squares(space, "lockstep::lamb::averages", averages,
                                   step_arrays<2, T>(tables(), parameters, step, copies, window), trust_.squares());
                   });
    trust_ratios(space, "lockstep::lamb::ratios", tables(), trust_, ratio);
    step_windows<2, T>(space, "lockstep::lamb::step", tables(), parameters, step, copies,
                       rules_of<T>(space, tables(), step, MakeLambRule{update}), trust_.ratios());
  });
}

}  // namespace lockstep
