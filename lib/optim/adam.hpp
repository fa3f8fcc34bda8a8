// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

/// The keys of Adam and its variants.
struct AdamOptions : OptimizerOptions {
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;

  AdamOptions() { learning_rate = 1e-3; }
  void describe(Fields& fields) override;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool counts_steps() const override { return true; }  // for the bias correction
};

struct AdamConfig final : AdamOptions {
  std::string_view weight_decay_help() const override {
    return "weight decay as a part of the gradient, to which this times the parameter is added (0: none)";
  }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct AdamWConfig final : AdamOptions {
  AdamWConfig();
  std::string_view weight_decay_help() const override {
    return "decoupled weight decay: each step reduces the parameter by learning rate × this × the parameter (0: none)";
  }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

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

}  // namespace lockstep
