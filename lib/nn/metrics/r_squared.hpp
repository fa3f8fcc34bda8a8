// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

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

}  // namespace lockstep
