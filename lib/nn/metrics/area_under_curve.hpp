// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The area under the receiver operating characteristic curve (scikit-learn's roc_auc_score), mean over channels: the
/// probability that a target of 1 has a larger output than a target of 0, where equal outputs count half. For sequences
/// and images it covers all positions of all examples. Targets of at least 0.5 count as 1. Outputs y are counted in
/// bins of equal width in y/(1 + |y|), and outputs in the same bin count as equal: if outputs spread evenly over b
/// bins, the area is exact to about 1/(2 b). A channel whose targets are all the same has no area and is left out of
/// the mean. If any output is NaN, the metric is NaN.
class AreaUnderCurve final : public Metric {
 public:
  AreaUnderCurve(const Shape& one_output, std::int64_t /*ignored*/) : channels_(one_output[-1]) {}
  std::int64_t sum_count() const override { return channels_ * sums_of_channel; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

  static constexpr std::int64_t bins = 16384;

 private:
  /// Counts of zeros in each bin, counts of ones in each bin, and the number of NaN outputs.
  static constexpr std::int64_t sums_of_channel = 2 * bins + 1;

  std::int64_t channels_;
};

}  // namespace lockstep
