// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct LionConfig final : OptimizerOptions {
  std::vector<double> betas = {0.9, 0.99};

  LionConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "decoupled weight decay: each step reduces the parameter by learning rate × this × the parameter (0: none)";
  }
  std::vector<std::string> state_names() const override { return {"exp_avg"}; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2: u = sign(β₁·m + (1 − β₁)·g);
/// p ← p − lr·(u + weight_decay·p); m ← β₂·m + (1 − β₂)·g.
class Lion final : public Optimizer {
 public:
  Lion(const LionConfig& config, const ParameterBuffer& parameters)
      : Optimizer(config, parameters), betas_(config.betas) {}

  StepCoefficients coefficients(const RateOfStep& rate) const override { return {rate.learning_rate}; }

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  std::vector<double> betas_;
};

}  // namespace lockstep
