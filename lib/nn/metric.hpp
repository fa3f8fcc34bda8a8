// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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
  /// Adds numbers up over ranks, in place. Collective.
  using AddOverRanks = std::function<void(std::span<double>)>;
  /// Returns the metric of the `examples` examples of all ranks from the `own` sums of this one. All ranks call this,
  /// and `add` equally often.
  virtual double value_over_ranks(std::span<const double> own, std::int64_t examples, const AddOverRanks& add) const {
    std::vector<double> all(own.begin(), own.end());
    add(all);
    return value(all, examples);
  }
};

}  // namespace lockstep
