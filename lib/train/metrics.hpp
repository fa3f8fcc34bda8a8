// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// Value of one of the deck's `metrics`.
struct MetricValue {
  std::string_view name;  ///< as in the table of metrics
  double value = 0;
};

/// Quality of a network on a batch, or in an evaluation.
struct Metrics {
  double loss = 0;                  ///< mean over the examples' targets that count; NaN if none does
  std::optional<double> accuracy;   ///< for classes only; of a sequence, the fraction of its tokens
  std::vector<MetricValue> others;  ///< in evaluations: values of the deck's `metrics`, in its order
  std::vector<double> confusions;   ///< [classes, classes], if asked for: see count_confusions
  bool has_loss = true;             ///< false: no target counts, or only targets of weight 0

  /// Returns the value of "loss", "accuracy" or one of the others; none if there is no such metric.
  std::optional<double> find(std::string_view name) const {
    if (name == "loss") return loss;
    if (name == "accuracy") return accuracy;
    for (const MetricValue& other : others)
      if (other.name == name) return other.value;
    return std::nullopt;
  }
};

/// Numbers of a step that curves show.
struct StepMetrics {
  Metrics metrics;
  double gradient_norm = 0;  ///< norm of the mean gradient
};

}  // namespace lockstep
