// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"
#include "config/state_fields.hpp"
#include "train/evaluator.hpp"

namespace lockstep {

/// What an evaluation on validation data is judged by: validation_loss, validation_accuracy, or validation_ followed by
/// the name of a metric.
class ValidationMetric {
 public:
  constexpr ValidationMetric(const char* text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  std::string_view text() const { return text_; }
  /// The name without validation_.
  std::string_view name() const { return text_.substr(prefix.size()); }
  /// Returns the metric's value; none if it is not finite or was not measured.
  std::optional<double> value_of(const Metrics& metrics) const;
  bool is_better(double value, double than) const;
  /// Says what is wrong with a target value that the metric never has; empty if nothing is.
  std::string problem_with(double value) const;

  void describe(Fields& fields, std::string_view help);

  static constexpr std::string_view prefix = "validation_";

 private:
  std::string_view text_;  ///< a literal, or from the static table of names
};

/// The deck's run.target: ends the run when it is reached.
struct TargetOptions {
  bool present = false;
  ValidationMetric metric{"validation_accuracy"};
  double value = 0;

  void describe(Fields& fields);
};

/// run.patience: ends the run when nothing improves any longer.
struct PatienceOptions {
  bool present = false;
  ValidationMetric metric{"validation_loss"};
  std::int64_t evaluations = 0;  ///< number of evaluations in a row without an improvement

  void describe(Fields& fields);
};

/// checkpoint.keep_best.
struct KeepBestOptions {
  bool present = false;
  ValidationMetric metric{"validation_loss"};
  std::int64_t count = 1;

  void describe(Fields& fields);
};

/// What follows from the evaluations of a run: when it ends, and which of its checkpoints are the best. The same on all
/// ranks.
class Selection final : public Stateful {
 public:
  struct Options {
    TargetOptions target;
    PatienceOptions patience;
    KeepBestOptions keep_best;
  };
  struct Evaluation {
    std::int64_t step = 0;
    double value = 0;
  };

  explicit Selection(const Options& options);

  /// Takes in an evaluation after `step` steps. Returns whether its checkpoint is to be kept as one of the best.
  bool inspect(std::int64_t step, const Metrics& metrics);

  bool target_reached() const { return options_.target.present && state_.target_reached; }
  /// Step of the first evaluation that has reached the target: the steps to result of Shallue et al. 2019.
  std::optional<std::int64_t> steps_to_target() const { return state_.steps_to_target; }
  bool has_target() const { return options_.target.present; }
  bool out_of_patience() const {
    return options_.patience.present && state_.without_improvement >= options_.patience.evaluations;
  }
  bool ends_run() const { return target_reached() || out_of_patience(); }
  /// Why the run ends.
  std::string reason() const;

  /// Steps of the checkpoints to keep, the best one first.
  std::vector<std::int64_t> best_steps() const;
  struct Best {
    std::string metric;  ///< empty: the deck does not ask for the best
    Evaluation evaluation;
  };
  Best best() const { return state_.best.empty() ? Best{} : Best{state_.best_metric, state_.best.front()}; }

  /// Forgets the best checkpoints for which `is_gone` returns true. Returns whether there were any.
  bool forget_best(const std::function<bool(std::int64_t step)>& is_gone);

  /// Forgets all evaluations, because the next ones cannot be compared with them. Returns whether there were any.
  bool forget_evaluations();

  /// When a state is restored, goals that the deck no longer has are forgotten.
  void describe_state(StateFields& fields) override;

 private:
  struct State {
    std::string target, patience_metric, best_metric;  ///< the goals of the deck
    bool target_reached = false;
    std::optional<std::int64_t> steps_to_target;
    std::optional<Evaluation> patience_best;
    std::int64_t without_improvement = 0;  ///< evaluations since the best one
    std::vector<Evaluation> best;          ///< in order, the best one first
  };
  void forget_what_is_not_wanted();

  Options options_;
  State state_;
};

}  // namespace lockstep
