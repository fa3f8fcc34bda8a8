// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `loss_watch` section.
struct LossWatchConfig {
  enum class Action { stop, skip, rollback };

  bool present = false;
  Action on_anomaly = Action::stop;
  double z_score = 8;
  std::int64_t window = 100;
  std::int64_t at_most = 3;

  void describe(Fields& fields);
};

/// Looks for steps and evaluations whose loss is not finite, or jumps out of what those before it had.
class LossWatch {
 public:
  struct State {
    std::int64_t anomalies = 0;  ///< found and gone on from
    // Of the newest ones without any, at most `window`, the oldest first:
    std::vector<double> losses;             ///< steps
    std::vector<double> validation_losses;  ///< evaluations
  };

  LossWatch(const LossWatchConfig& config, State state) : config_(config), state_(std::move(state)) {}

  /// What is wrong with the mean loss of a step; empty: nothing. Then it is one of the losses that later ones are
  /// compared with.
  std::string inspect(double loss) { return inspect("the loss", "steps", loss, state_.losses); }
  /// The same of an evaluation's.
  std::string inspect_validation(double loss) {
    return inspect("the validation loss", "evaluations", loss, state_.validation_losses);
  }
  /// It was, and the run goes on.
  void count() { ++state_.anomalies; }
  bool may_go_on() const { return state_.anomalies < config_.at_most; }
  LossWatchConfig::Action action() const { return config_.on_anomaly; }
  bool rolls_back() const { return action() == LossWatchConfig::Action::rollback && may_go_on(); }

  const State& state() const { return state_; }

 private:
  std::string inspect(const char* what, const char* before, double loss, std::vector<double>& losses);

  LossWatchConfig config_;
  State state_;
};

}  // namespace lockstep
