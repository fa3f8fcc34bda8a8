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
  std::string_view name;  ///< in decks, metrics.csv and summary.json
  std::string_view help;
  Better better;
  Range values;       ///< that it may have
  bool of_classes;    ///< or of values: what the targets are
  int least_outputs;  ///< with fewer it says nothing
  /// one_output: the shape of an example's output; ignored: targets of this number do not count (-1: there are none).
  std::unique_ptr<Metric> (*make)(const Shape& one_output, std::int64_t ignored);
};

/// Every metric of the deck's `metrics`. A new one is one line of this table.
std::span<const MetricKind> metric_kinds();
/// Their names, in the same order.
std::span<const std::string_view> metric_names();
/// Null: the table has none of that name.
const MetricKind* find_metric(std::string_view name);

/// Every number that an evaluation may have: loss and accuracy, which come without being asked for, and the table's.
std::span<const std::string_view> evaluation_names();
/// Whether results are better with more or with less of the number of this name (one of evaluation_names).
Better better_of(std::string_view name);
/// What values it may have.
Range values_of(std::string_view name);

}  // namespace lockstep
