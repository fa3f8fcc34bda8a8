// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

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
struct LoggedMetrics {
  Metrics metrics;
  double gradient_norm = 0;  ///< norm of the mean gradient
};

/// Requests of a rank after a step; one rank's request is enough.
struct RankRequests {
  bool stop = false;        ///< this step is to be the last one
  bool checkpoint = false;  ///< it is time for a checkpoint
};

/// The outcome of a step, as found by the host. The same on all ranks of the step.
struct StepOutcome {
  enum class Status {
    applied,   ///< parameters are updated
    skipped,   ///< its gradients are of no use: parameters stay, but the step counts
    fatal,     ///< it cannot be done; the state is that before the step
    rollback,  ///< the run is to go back to its last checkpoint; the state is that before the step
  };
  Status status = Status::applied;
  std::string message;          ///< the reason, unless the step is applied; then a warning, or empty
  bool bad_parameters = false;  ///< the step is fatal, or goes back, because parameters are not finite
  std::int64_t number = 0;      ///< number of the step, from 1 on; 0: no step is known

  /// Whether the step counts, and the run goes on from it.
  bool done() const { return status == Status::applied || status == Status::skipped; }
};

/// Thrown by a rank whose group trains by itself, if its step cannot be done. The other ranks do not
/// know of it, and have to end with it.
struct SeparateStepError : Error {
  using Error::Error;
};

/// What the host knows of the last step.
struct StepResult {
  RankRequests requests;      ///< of all ranks
  std::int64_t examples = 0;  ///< of all ranks
  /// The newest outcome: on devices, that of the step before, of which the host hears a step late; none: of no step.
  std::optional<StepOutcome> outcome;
  /// Seconds of the longest step of any rank, if ranks have done several by themselves.
  std::optional<double> longest_step{};

  /// Whether all steps that have an outcome count.
  bool done() const { return !outcome || outcome->done(); }
};

}  // namespace lockstep
