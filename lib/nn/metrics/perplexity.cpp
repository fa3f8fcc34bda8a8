// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/perplexity.hpp"

#include <cmath>

#include "ops/loss.hpp"

namespace lockstep {

void Perplexity::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
                     const Tensor& sums) const {
  softmax_cross_entropy(space, 0.0, outputs, targets, Tensor{}, scratch, sums);
}

double Perplexity::value(std::span<const double> sums, std::int64_t examples) const {
  return std::exp(sums[0] / static_cast<double>(examples));
}

}  // namespace lockstep
