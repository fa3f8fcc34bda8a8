// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct SgdConfig : OptimizerOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "weight decay as a part of the gradient, to which this times the parameter is added (0: none)";
  }
  std::vector<std::string> state_names() const override;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

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

}  // namespace lockstep
