// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"

namespace lockstep {

struct SgdConfig : OptimizerOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;

  void describe(Fields& fields) override;
  std::vector<std::string> state_names() const override;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// Stochastic gradient descent in PyTorch's form: g ← g + weight_decay·p; v ← momentum·v + g;
/// p ← p − lr·v, or p − lr·(g + momentum·v) with Nesterov. The velocity starts at zero, so that the
/// first one is the first gradient.
class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(double learning_rate, std::int64_t number) const override;
  void step(const ExecSpace& space, ParameterBuffer& parameters, const OptimizerStep& step) override;
  const std::vector<State>& states() const override { return states_; }

 private:
  SgdConfig config_;
  Buffer velocity_;
  std::vector<State> states_;  ///< none without momentum
};

}  // namespace lockstep
