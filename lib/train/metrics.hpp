// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// One of the deck's `metrics`.
struct MetricValue {
  std::string_view name;  ///< of the table of metrics
  double value = 0;
};

/// How good a network is on a batch, or in an evaluation.
struct Metrics {
  double loss = 0;                  ///< mean over the examples' targets that count; NaN where none does
  std::optional<double> accuracy;   ///< of classes only; of a sequence: the fraction of its tokens
  std::vector<MetricValue> others;  ///< of evaluations: the deck's `metrics`, in its order
  std::vector<double> confusions;   ///< [classes, classes], where they were asked for: see count_confusions
  bool has_loss = true;             ///< false: no target counts, or only ones of weight 0

  /// The value of "loss", "accuracy" or one of the others; none where there is no such.
  std::optional<double> find(std::string_view name) const {
    if (name == "loss") return loss;
    if (name == "accuracy") return accuracy;
    for (const MetricValue& other : others)
      if (other.name == name) return other.value;
    return std::nullopt;
  }
};

/// What curves show of a step.
struct StepNumbers {
  Metrics metrics;
  double gradient_norm = 0;  ///< of the mean gradient
};

}  // namespace lockstep
