// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The coefficient of determination, 1 − Σ(t − y)² / Σ(t − mean t)² over examples (and over the positions of sequences
/// and images), averaged over channels (scikit-learn's r2_score). A channel whose targets are all equal (to a relative
/// 10⁻⁶) counts 1 if all outputs equal their targets, else 0.
class RSquared final : public Metric {
 public:
  RSquared(const Shape& one_output, std::int64_t /*ignored*/)
      : outputs_(one_output.count()), channels_(one_output[-1]) {}
  /// Three sums for each position and channel, so that every output has a thread of its own to add them up.
  std::int64_t sum_count() const override { return 3 * outputs_; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

 private:
  std::int64_t outputs_, channels_;
};

}  // namespace lockstep
