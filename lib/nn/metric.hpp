// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace lockstep {

/// A measure of a network's outputs other than the loss. It is computed from sums over examples that are first added up
/// over all ranks, so the result does not depend on how examples are distributed.
class Metric {
 public:
  virtual ~Metric() = default;
  /// How many sums the metric needs.
  virtual std::int64_t sum_count() const = 0;
  /// Adds a batch to `sums`, f64 [sum_count()]. Outputs [n, …, K] have targets i32 [n, …] (classes) or [n, …, K] of
  /// master_dtype (values). `scratch`: f64 [rows, 2]. Metrics of classes may receive a batch in parts, with outputs
  /// [rows, K] and targets [rows].
  virtual void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
                   const Tensor& sums) const = 0;
  /// Returns the metric of `examples` examples from their sums.
  virtual double value(std::span<const double> sums, std::int64_t examples) const = 0;
};

}  // namespace lockstep
