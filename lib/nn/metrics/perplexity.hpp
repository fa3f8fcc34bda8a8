// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/metric.hpp"
#include "ops/loss/loss.hpp"

namespace lockstep {

/// e^H, where H is the mean cross entropy over examples and positions, in nats.
class Perplexity final : public Metric {
 public:
  Perplexity(const Shape&, std::int64_t ignored) : ignored_(ignored) {}
  std::int64_t sum_count() const override { return loss_sum_count; }
  void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
           const Tensor& sums) const override;
  double value(std::span<const double> sums, std::int64_t examples) const override;

 private:
  std::int64_t ignored_;
};

}  // namespace lockstep
