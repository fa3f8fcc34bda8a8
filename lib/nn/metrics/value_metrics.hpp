// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metrics/metric.hpp"

namespace lockstep {

/// The coefficient of determination, 1 − Σ(t − y)² / Σ(t − mean t)² over examples (and over the positions of sequences
/// and images), averaged over channels (scikit-learn's r2_score). A channel whose targets are all equal (to a relative
/// 10⁻¹²) counts 1 if all outputs equal their targets, else 0. Squares are summed about means, since Σt² − (Σt)²/n
/// would lose all digits of targets whose mean is much larger than their deviation.
class RSquared final : public Metric {
 public:
  RSquared(const Shape& one_output, std::int64_t /*ignored*/)
      : outputs_(one_output.count()), channels_(one_output[-1]) {}
  /// Four numbers for each position and channel, so that every output has a thread of its own to add them up.
  std::int64_t sum_count() const override { return 4 * outputs_; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override {
    return value_over_ranks(sums, examples, [](std::span<double>) {});
  }
  double value_over_ranks(std::span<const double> own, std::int64_t examples, const AddOverRanks& add) const override;

 private:
  std::int64_t outputs_, channels_;
};

/// The area under the receiver operating characteristic curve (scikit-learn's roc_auc_score), mean over channels: the
/// probability that a target of 1 has a larger output than a target of 0, where equal outputs count half. For sequences
/// and images it covers all positions of all examples. Targets of at least 0.5 count as 1. Outputs are counted in
/// bins, and those in the same bin count as equal. A bin is at most 1/16384 wide in y/(1 + |y|). It also covers at most
/// 1/128 of an octave of |y|, between 2⁻⁶⁴ (of negative y 2⁻³²) and 2²⁴; above ½ and below 1 of 1 − y, from 2⁻²⁵ on.
/// A channel whose targets are all the same has no area and is left out of the mean. If any output is NaN, the metric
/// is NaN.
class AreaUnderCurve final : public Metric {
 public:
  AreaUnderCurve(const Shape& one_output, std::int64_t /*ignored*/) : channels_(one_output[-1]) {}
  std::int64_t sum_count() const override { return channels_ * sums_of_channel; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

  /// An octave (a factor of 2) of a logarithm is divided into 2^octave_bits parts.
  static constexpr std::int64_t octave_bits = 7;
  /// Exponents of 2 at which the logarithm of |y| begins and ends, and the one at which that of 1 − y begins.
  static constexpr std::int64_t least_negative = -32, least_positive = -64, least_from_one = -25, most = 24;
  /// Parts of the logarithms below 0, from 0 to ½, and from ½ to 1.
  static constexpr std::int64_t negative_parts = (most - least_negative) << octave_bits;
  static constexpr std::int64_t small_parts = (-1 - least_positive) << octave_bits;
  static constexpr std::int64_t near_one_parts = (-1 - least_from_one) << octave_bits;
  /// Steps of the scale that is uniform in y/(1 + |y|).
  static constexpr std::int64_t even_bins = 16384;
  static constexpr std::int64_t bins = even_bins + negative_parts + small_parts + near_one_parts +
                                       (most << octave_bits);

 private:
  /// Counts of zeros in each bin, counts of ones in each bin, and the number of NaN outputs.
  static constexpr std::int64_t sums_of_channel = 2 * bins + 1;

  std::int64_t channels_;
};

}  // namespace lockstep
