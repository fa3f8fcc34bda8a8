// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The area under the receiver operating characteristic (scikit-learn's roc_auc_score), mean over the channels:
/// how likely a target of 1 has a larger output than a target of 0, equal outputs counting half; of sequences and
/// pictures among all positions of all examples. Targets from 0.5 on are ones. Outputs y are counted in bins of equal
/// width in y/(1 + |y|), and those of one bin are equal: the area of outputs that are spread evenly over b bins is
/// exact to about 1/(2 b). A channel whose targets are all the same has no area, and does not count; with an output
/// that is not a number there is none at all.
class AreaUnderCurve final : public Metric {
 public:
  AreaUnderCurve(const Shape& one_output, std::int64_t /*ignored*/) : channels_(one_output[-1]) {}
  std::int64_t sum_count() const override { return channels_ * sums_of_channel; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

  static constexpr std::int64_t bins = 16384;

 private:
  /// Zeros in each bin, ones in each, and what is no number.
  static constexpr std::int64_t sums_of_channel = 2 * bins + 1;

  std::int64_t channels_;
};

}  // namespace lockstep
