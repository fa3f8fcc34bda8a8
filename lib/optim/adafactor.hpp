// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/factored_moments.hpp"
#include "optim/optimizer.hpp"
#include "optim/trust_ratio.hpp"

namespace lockstep {

struct AdafactorConfig final : OptimizerOptions {
  double beta2_decay = 0.8;
  double clip_threshold = 1;
  std::vector<double> epsilons = {1e-15, 1e-3};

  AdafactorConfig() { learning_rate = 0.01; }
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "decoupled weight decay: each step reduces the parameter by learning rate × this × the parameter (0: none)";
  }
  std::vector<std::string> state_names() const override { return {"col_var", "row_var"}; }
  std::vector<Parameter> state_layout(std::string_view state, const std::vector<Parameter>& trained) const override;
  bool counts_steps() const override { return true; }
  bool divides() const override { return false; }  // row and column averages span all blocks
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// Shazeer & Stern, "Adafactor", 2018, in PyTorch's form. v is the average of squared gradients, in which the newest
/// gradient has the weight t^−beta2_decay in step t; for matrices it is kept as averages of rows and columns
/// (factored_moments.hpp). u = g / √max(v, ε₁²); p ← p·(1 − lr·weight_decay) − α·u / max(1, rms(u) / clip_threshold),
/// where α = min(lr, 1/√t)·max(ε₂, rms(p)).
class Adafactor final : public Optimizer {
 public:
  Adafactor(const AdafactorConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(const RateOfStep& rate) const override;
  bool overwrites_gradients() const override { return true; }

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  AdafactorConfig config_;
  FactoredMoments moments_;
  TrustRatios trust_;
  OwnedTensor one_;  ///< f64 [1]: the number 1, a gradient scale for kernels
};

}  // namespace lockstep
