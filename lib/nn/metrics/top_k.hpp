// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// The share of examples (of sequences: of positions) whose class has one of the k largest outputs. Among equals the
/// class of the smaller number comes first.
class TopK final : public Metric {
 public:
  TopK(const Shape& one_output, int k) : positions_(one_output.count() / one_output[-1]), k_(k) {}
  std::int64_t sum_count() const override { return 1; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override {
    return sums[0] / static_cast<double>(examples * positions_);
  }

 private:
  std::int64_t positions_, k_;
};

}  // namespace lockstep
