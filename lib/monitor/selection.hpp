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

/// What an evaluation on validation data is judged by: validation_loss, validation_accuracy, or validation_ and the
/// name of a metric.
class ValidationMetric {
 public:
  constexpr ValidationMetric(const char* text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  std::string_view text() const { return text_; }
  /// Without validation_.
  std::string_view name() const { return text_.substr(prefix.size()); }
  /// None where there is nothing to compare: a loss that is not finite.
  std::optional<double> value_of(const Metrics& metrics) const;
  bool is_better(double value, double than) const;
  /// What is wrong with a value to be reached that it never has; empty: nothing.
  std::string problem_with(double value) const;

  void describe(Fields& fields, std::string_view help);

  static constexpr std::string_view prefix = "validation_";

 private:
  std::string_view text_;  ///< a literal, or of the table of names
};

/// The deck's run.target: ends the run when it is reached.
struct TargetOptions {
  bool present = false;
  ValidationMetric metric{"validation_accuracy"};
  double value = 0;

  void describe(Fields& fields);
};

/// run.patience: ends the run when nothing improves any more.
struct PatienceOptions {
  bool present = false;
  ValidationMetric metric{"validation_loss"};
  std::int64_t evaluations = 0;  ///< in a row, none of which is better than the best before them

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

  /// An evaluation after so many steps: true, if its checkpoint is to be kept as one of the best.
  bool inspect(std::int64_t step, const Metrics& metrics);

  bool target_reached() const { return options_.target.present && state_.target_reached; }
  /// Of the first evaluation that has reached it: the steps to result of Shallue et al. 2019.
  std::optional<std::int64_t> steps_to_target() const { return state_.steps_to_target; }
  bool has_target() const { return options_.target.present; }
  bool out_of_patience() const {
    return options_.patience.present && state_.without_improvement >= options_.patience.evaluations;
  }
  bool ends_run() const { return target_reached() || out_of_patience(); }
  /// Why it does.
  std::string reason() const;

  /// Steps of the checkpoints to keep, the best one first.
  std::vector<std::int64_t> best_steps() const;
  struct Best {
    std::string metric;  ///< empty: the deck does not look for the best
    Evaluation evaluation;
  };
  Best best() const { return state_.best.empty() ? Best{} : Best{state_.best_metric, state_.best.front()}; }

  /// Forgets the best checkpoints that `is_gone` says are not there.
  void forget_best(const std::function<bool(std::int64_t step)>& is_gone);

  /// What was looked for when the checkpoint was written, and no longer is, is forgotten.
  void describe_state(StateFields& fields) override;

 private:
  struct State {
    std::string target, patience_metric, best_metric;  ///< what was looked for
    bool target_reached = false;
    std::optional<std::int64_t> steps_to_target;
    std::optional<Evaluation> patience_best;
    std::int64_t without_improvement = 0;  ///< evaluations since then
    std::vector<Evaluation> best;          ///< the best one first
  };
  void forget_what_is_not_wanted();

  Options options_;
  State state_;
};

}  // namespace lockstep
