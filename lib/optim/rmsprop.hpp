// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct RmspropConfig final : OptimizerOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;

  RmspropConfig() { learning_rate = 1e-2; }
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "weight decay as a part of the gradient, to which this times the parameter is added (0: none)";
  }
  std::vector<std::string> state_names() const override;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

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

}  // namespace lockstep
