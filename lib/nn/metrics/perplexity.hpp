// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"

namespace lockstep {

/// e^H, where H is the mean cross entropy of examples and positions, in nats.
class Perplexity final : public Metric {
 public:
  explicit Perplexity(const Shape&) {}
  std::int64_t sum_count() const override { return 3; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;
};

}  // namespace lockstep
