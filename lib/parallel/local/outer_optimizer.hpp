// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/flat_part.hpp"
#include "optim/outer_step.hpp"
#include "parallel/config/local_config.hpp"

namespace lockstep {

/// Updates parameters by the differences that replicas have made to them: the outer rule of parallel.local (OuterStep),
/// with its velocity.
class OuterOptimizer {
 public:
  /// Name of the velocity in checkpoints.
  static constexpr const char* velocity_name = "velocity";

  /// For `count` flat parameters of type f32 or f64.
  OuterOptimizer(const LocalConfig& config, DType dtype, std::int64_t count);

  /// Number of values that it remembers for each parameter.
  static int numbers_each(const LocalConfig& config) { return config.has_momentum() ? 1 : 0; }

  /// Does a step of the parameters in `range`, to which `differences` and `values` belong; `share` times the
  /// differences is x₀ − x̄.
  void step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences,
            const Tensor& values) const;

  /// Flat, zero at first; empty if the rule has no momentum.
  const Tensor& velocity() const { return velocity_.get(); }

 private:
  OuterStep rule_;
  OwnedTensor velocity_;
};

}  // namespace lockstep
