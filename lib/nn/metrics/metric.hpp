// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "config/fields.hpp"
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

enum class Better { less, more };

/// A metric that decks can name.
struct MetricKind {
  std::string_view name;  ///< its name in decks, metrics.csv and summary.json
  std::string_view help;
  Better better;
  Range values;       ///< the values that the metric can have
  bool of_classes;    ///< true if targets are classes, false if they are values
  int least_outputs;  ///< smallest number of outputs for which the metric is meaningful
  /// one_output: shape of one example's output; ignored: class number whose targets do not count (-1: none).
  std::unique_ptr<Metric> (*make)(const Shape& one_output, std::int64_t ignored);
};

/// All metrics that the deck's `metrics` can name. A new metric needs one line in this table.
std::span<const MetricKind> metric_kinds();
/// The names of all metrics, in the order of metric_kinds().
std::span<const std::string_view> metric_names();
/// Returns null if the table has no metric of that name.
const MetricKind* find_metric(std::string_view name);

/// The names of all numbers that an evaluation can report: loss and accuracy, which are always reported, and the
/// metrics of the table.
std::span<const std::string_view> evaluation_names();
/// Whether larger or smaller values of the number of this name (one of evaluation_names) are better.
Better better_of(std::string_view name);
/// The values that the number of this name (one of evaluation_names) can have.
Range values_of(std::string_view name);

}  // namespace lockstep
