// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"
#include "optim/trust_ratio.hpp"

namespace lockstep {

struct LarsConfig final : OptimizerOptions {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
  bool momentum_correction = false;

  LarsConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "weight decay as a part of the gradient, to which this times the parameter is added (0: none)";
  }
  std::vector<std::string> state_names() const override { return {"velocity"}; }
  bool needs_all_gradients() const override { return true; }  // norms need all gradients
  StatePasses state_passes(bool values) const override { return {.reads = values ? 2 : 1, .writes = 1}; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// You et al., "Large batch training of convolutional networks", 2017: λ = η‖p‖ / (‖g‖ + weight_decay·‖p‖) for each
/// parameter; v ← momentum·v + lr·λ·(g + weight_decay·p); p ← p − v. λ is 1 for parameters without trust ratio, and if
/// a norm is zero. With momentum correction (Goyal et al. 2017) v is first multiplied by the ratio of this step's lr to
/// the previous one's, since v already contains the learning rate.
class Lars final : public Optimizer {
 public:
  Lars(const LarsConfig& config, const ParameterBuffer& parameters);

  StepCoefficients coefficients(const RateOfStep& rate) const override;

 private:
  void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) override;

  LarsConfig config_;
  TrustRatios trust_;
};

}  // namespace lockstep
