// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct SgdConfig : OptimizerOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return "times the parameter, added to its gradient"; }
  std::vector<std::string> state_names() const override;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// Stochastic gradient descent in PyTorch's form: g ← g + weight_decay·p; v ← momentum·v + (1 − dampening)·g, in the
/// first step v ← g; p ← p − lr·v, or p − lr·(g + momentum·v) with Nesterov.
class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const ParameterBuffer& parameters) : Optimizer(config, parameters), config_(config) {}

  StepCoefficients coefficients(const StepRate& rate) const override;
  void step(const ExecSpace& space, ParameterBuffer& parameters, const StepScalars* step) override;

 private:
  SgdConfig config_;
};

}  // namespace lockstep
