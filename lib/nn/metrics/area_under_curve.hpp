// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The area under the receiver operating characteristic (scikit-learn's roc_auc_score), mean over the outputs: how
/// likely a target of 1 has a larger output than a target of 0, equal ones counting half. Targets from 0.5 on are ones.
/// Outputs are counted in bins, and those of one bin are equal: 2⁻¹³ of 1 + |output| squared is the width of one, of
/// which fp32's AUC of spread outputs moves by less than 10⁻⁴. An output whose targets are all the same has no area,
/// and does not count; one that is not a number makes the area none.
class AreaUnderCurve final : public Metric {
 public:
  AreaUnderCurve(const Shape& one_output, std::int64_t /*ignored*/) : outputs_(one_output.count()) {}
  std::int64_t sum_count() const override { return outputs_ * sums_of_output; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

  static constexpr std::int64_t bins = 16384;

 private:
  /// Zeros in each bin, ones in each, and what is no number.
  static constexpr std::int64_t sums_of_output = 2 * bins + 1;

  std::int64_t outputs_;
};

}  // namespace lockstep
