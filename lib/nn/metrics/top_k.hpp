// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The share of examples (for sequences: of positions) whose class has one of the k largest outputs. Of equal outputs,
/// the one with the smaller class number ranks higher.
class TopK final : public Metric {
 public:
  TopK(const Shape&, std::int64_t ignored, int k) : ignored_(ignored), k_(k) {}
  std::int64_t sum_count() const override { return 2; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t) const override { return sums[0] / sums[1]; }

 private:
  std::int64_t ignored_, k_;
};

}  // namespace lockstep
