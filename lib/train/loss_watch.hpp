// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "config/state_fields.hpp"

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

/// Looks for steps and evaluations whose loss is not finite, or jumps above the losses before it.
class LossWatch final : public Stateful {
 public:
  explicit LossWatch(const LossWatchConfig& config) : config_(config) {}

  /// Returns what is wrong with the mean loss of a step, or an empty string. A loss without fault becomes one of those
  /// that later ones are compared with.
  std::string inspect(double loss) { return inspect("the loss", "steps", loss, losses_); }
  /// Returns what is wrong with the loss of an evaluation, or an empty string.
  std::string inspect_validation(double loss) {
    return inspect("the validation loss", "evaluations", loss, validation_losses_);
  }
  /// Counts an anomaly from which the run goes on.
  void count() { ++anomalies_; }
  bool may_continue() const { return anomalies_ < config_.at_most; }
  LossWatchConfig::Action action() const { return config_.on_anomaly; }
  bool rolls_back() const { return action() == LossWatchConfig::Action::rollback && may_continue(); }

  /// Number of anomalies that the run has gone on from; they stay counted after a rollback.
  std::int64_t anomalies() const { return anomalies_; }
  void set_anomalies(std::int64_t anomalies) { anomalies_ = anomalies; }
  /// Call when the next losses are of other data than those before.
  void forget_losses() { losses_.clear(); }
  void forget_validation_losses() { validation_losses_.clear(); }
  /// Losses of the steps that the next one is compared with.
  const std::vector<double>& losses() const { return losses_; }

  void describe_state(StateFields& fields) override;

 private:
  std::string inspect(const char* what, const char* before, double loss, std::vector<double>& losses);

  LossWatchConfig config_;
  std::int64_t anomalies_ = 0;
  // Losses without an anomaly: the newest ones, at most `window`, oldest first.
  std::vector<double> losses_;             ///< of steps
  std::vector<double> validation_losses_;  ///< of evaluations
};

}  // namespace lockstep
