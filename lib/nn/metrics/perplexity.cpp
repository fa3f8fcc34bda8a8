// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/perplexity.hpp"

#include <cmath>
#include <limits>

namespace lockstep {

void Perplexity::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
                     const Tensor& sums) const {
  // Rows count alike, whatever their example.
  const Tensor rows = outputs.reshaped({targets.count(), outputs.shape[-1]});
  softmax_cross_entropy(space, {.ignored = ignored_}, rows, targets, Tensor{}, scratch, sums);
}

double Perplexity::value(std::span<const double> sums, std::int64_t) const {
  const double counted = sums[3];
  return counted > 0 ? std::exp(sums[0] / counted) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lockstep
