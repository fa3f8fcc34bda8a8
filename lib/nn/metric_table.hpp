// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "config/fields.hpp"
#include "nn/metric.hpp"

namespace lockstep {

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
