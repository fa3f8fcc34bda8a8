// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "data/sampler.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/step_consensus.hpp"
#include "train/nonfinite_report.hpp"
#include "train/overflow_watch.hpp"
#include "train/step_result.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Decides what becomes of a step, and scales its loss: overflows of scaled gradients, losses that are not finite or
/// jump (loss_watch), and parameters that are not finite.
class StepGuard final : public Stateful {
 public:
  struct Finding {
    StepStatus status = StepStatus::applied;
    std::string message;  ///< as in StepResult
  };

  /// `sums`: of gradients, that each rank computes in a step. `data`: that is trained on. All outlive this.
  StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
            const Optimizer& optimizer, std::int64_t sums);

  /// A step of `examples` of all ranks begins.
  void begin(const ExecSpace& space, const BatchPlan& plan);
  /// What the loss is multiplied with in it. Scaled, the loss is a mean already, so that 16 bits hold the same numbers
  /// whatever the batch.
  double loss_factor() const { return loss_factor_; }
  /// A stretch of this rank's gradients, or of a shard's, is final; then all of them are.
  void gradient_ready(const ExecSpace& space, ParameterRange range);
  void sum_done();
  /// What becomes of step number `step`, whose gradients are summed, and whose mean loss this is. Collective.
  Finding classify(const ExecSpace& space, ParallelStrategy& strategy, const StepVote& votes, double mean_loss,
                   std::int64_t step);

  /// Whether the last update, of step number `step`, has left parameters that are finite. Collective; during training
  /// the next step's votes tell it.
  Finding inspect_parameters(const ExecSpace& space, std::int64_t step);
  /// Whether the parameters that this rank owns are finite.
  bool own_parameters_are_finite(const ExecSpace& space) const {
    return nonfinite_.parameters_are_finite(space, optimizer_);
  }
  /// What follows from the loss of an evaluation after step number `step`. `skipped`: say so, and go on.
  Finding inspect_validation(double loss, std::int64_t step);

  /// None where the loss is not scaled.
  std::optional<double> loss_scale() const { return scales_ ? std::optional(scaler_.scale()) : std::nullopt; }
  /// Anomalies of the loss that the run has gone on from; they stay counted when it goes back.
  std::int64_t anomalies() const { return loss_watch_.anomalies(); }
  void set_anomalies(std::int64_t anomalies) { loss_watch_.set_anomalies(anomalies); }

  void describe_state(StateFields& fields) override;

 private:
  Finding act_on_anomaly(const std::string& what);
  Finding act_on_nonfinite_loss(const ExecSpace& space, double loss, std::int64_t step);
  Finding act_on_bad_parameters(const ExecSpace& space, std::int64_t step, NonfiniteReport::Batch batch);
  Finding skip_overflow(const ExecSpace& space, std::int64_t step);

  const Communicator& comm_;
  const Optimizer& optimizer_;
  const Model& model_;
  NonfiniteReport nonfinite_;
  bool scales_, watches_;  ///< the deck wants loss scaling, loss_watch
  LossScaler scaler_;
  OverflowWatch overflow_;
  LossWatch loss_watch_;
  bool loss_was_nonfinite_ = false;  ///< of the last step, without loss_watch
  double loss_factor_ = 1;
};

}  // namespace lockstep
