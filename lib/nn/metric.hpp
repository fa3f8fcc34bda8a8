// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace lockstep {

/// What is measured of a network's outputs beside the loss. It follows from sums over examples, which are added up over
/// ranks first: exact, however the examples are shared out.
class Metric {
 public:
  virtual ~Metric() = default;
  /// How many numbers are summed.
  virtual std::int64_t sum_count() const = 0;
  /// Adds a batch to `sums`, f64 [sum_count()]. outputs [n, …, K] with targets i32 [n, …], or [n, …, K] of
  /// master_dtype. `scratch`: f64 [rows, 2]. Those of classes may get the rows of a batch in parts: [rows, K], [rows].
  virtual void add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& scratch,
                   const Tensor& sums) const = 0;
  /// The metric of `examples` examples, from their sums.
  virtual double value(std::span<const double> sums, std::int64_t examples) const = 0;
};

}  // namespace lockstep
