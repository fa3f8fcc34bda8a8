// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/adam.hpp"
#include "optim/trust_ratio.hpp"

namespace lockstep {

struct LambConfig final : AdamOptions {
  bool bias_correction = true;

  LambConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "weight decay: this times the parameter is added to its update, before the trust ratio is taken (0: none)";
  }
  bool needs_all_gradients() const override { return true; }  // norms need all gradients
  StatePasses state_passes(bool values) const override {
    return {.reads = 2, .writes = ema_decay > 0 || values ? 2 : 1};
  }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

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

}  // namespace lockstep
