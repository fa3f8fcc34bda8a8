// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/outer_optimizer.hpp"

namespace lockstep {

OuterOptimizer::OuterOptimizer(const LocalConfig& config, DType dtype, std::int64_t count)
    : rule_{.learning_rate = config.learning_rate_or_default(), .momentum = config.momentum_or_default()} {
  if (config.has_momentum()) velocity_ = OwnedTensor("lockstep::outer_optimizer::velocity", dtype, {count});
}

void OuterOptimizer::step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences,
                          const Tensor& values) const {
  OuterStep rule = rule_;
  rule.share = share;
  outer_step(space, rule, differences, velocity() ? flat_part(velocity(), range) : Tensor{}, values);
}

}  // namespace lockstep
