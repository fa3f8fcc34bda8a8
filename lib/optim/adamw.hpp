// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct AdamWConfig : OptimizerOptions {
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  double weight_decay = 0.01;

  AdamWConfig() { learning_rate = 1e-3; }
  void describe(Fields& fields) override;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// Adam (Kingma & Ba 2015) with decoupled weight decay (Loshchilov & Hutter 2019) in PyTorch's form:
/// p ← p·(1 − lr·weight_decay); m ← m + (1 − β₁)·(g − m); v ← β₂·v + (1 − β₂)·g²;
/// p ← p − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε) in step t, from 1.
class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(double learning_rate, std::int64_t number) const override;
  void step(const ExecSpace& space, ParameterBuffer& parameters, const OptimizerStep& step) override;
  const std::vector<State>& states() const override { return states_; }

 private:
  AdamWConfig config_;
  Buffer averages_;  ///< of the gradients, then of their squares
  std::vector<State> states_;
};

}  // namespace lockstep
