// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "data/sampler.hpp"
#include "parallel/parallel_strategy.hpp"
#include "train/guard/decision_queue.hpp"
#include "train/guard/nonfinite_report.hpp"
#include "train/guard/overflow_watch.hpp"
#include "train/metrics.hpp"
#include "train/step_result.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Scales the loss of each step and decides its outcome. It guards against overflows of scaled gradients,
/// losses that are not finite or jump (loss_watch), and parameters that are not finite. A kernel decides (decide_step);
/// the host learns of it, and gives the reason, when it takes the finding. Only loss_watch is done by the host: with
/// it, findings must be taken before the update.
class StepGuard final : public Stateful {
 public:
  /// `sums` is the number of gradient sums that each rank computes in a step. `data` is the training set. `data`,
  /// `model` and `optimizer` must outlive this object.
  StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
            const Optimizer& optimizer, std::int64_t sums);

  /// Begins step number `step`, which the ranks of `scope` judge.
  void begin(const ExecSpace& space, const BatchPlan& plan, const StepScope& scope, std::int64_t step);
  /// Call gradient_ready when a range of the gradients of this rank, or of a shard, is final, and sum_done when all
  /// of them are.
  void gradient_ready(const ExecSpace& space, ElementRange range);
  void sum_done();
  /// Decides the outcome of the current step, whose gradients are summed and whose loss is `loss`; scalars of
  /// decisions() are then those of its update. `bad_parameters` says that, by the ranks' votes, the step before has
  /// left parameters that are not finite. Starts kernels only, which a DeviceGraph may have recorded. Collective.
  void judge(const ExecSpace& space, ParallelStrategy& strategy, const SummedLoss& loss, bool bad_parameters,
             const UpdateOptions& options) const;
  /// Call after judge, even if judge was recorded: starts the copy of the decision to the host.
  void judged(const ExecSpace& space);

  /// Call after steps that ranks have judged by themselves: all go on with the smallest loss scale of any rank. Waits
  /// for the device. Collective.
  void agree(const ExecSpace& space) { decisions_.agree(space, comm_, scales_); }

  /// What has been decided about steps; its last() is that of the last finding that was taken.
  const DecisionQueue& decisions() const { return decisions_; }
  /// Takes the finding of the oldest step that has been judged and whose finding has not been taken. If that step
  /// cannot be done, the later ones are dropped. Waits for the device. Collective over the ranks that judge the step.
  StepFinding take(const ExecSpace& space);

  /// Checks whether the last update, that of step number `step`, has left finite parameters. Collective; during
  /// training, the votes of the next step tell it.
  StepFinding inspect_parameters(const ExecSpace& space, std::int64_t step);
  /// Whether the parameters are finite on all ranks. Collective.
  bool parameters_are_finite(const ExecSpace& space) const {
    return comm_.every_rank(nonfinite_.parameters_are_finite(space, optimizer_));
  }
  /// Returns what follows from the loss of an evaluation after step number `step`. `skipped` means: report it, and go
  /// on.
  StepFinding inspect_validation(const Metrics& metrics, std::int64_t step);

  /// Whether the host inspects losses itself (loss_watch).
  bool watches_loss() const { return watches_; }

  /// The loss scale as of the last finding that was taken; none if the loss is not scaled.
  std::optional<double> loss_scale() const {
    return scales_ ? std::optional<double>(decisions_.last().scaler.scale) : std::nullopt;
  }
  /// Sets the number of applied steps.
  void set_applied(std::int64_t applied);

  LossWatch& loss_watch() { return loss_watch_; }

  void describe_state(StateFields& fields) override;

 private:
  StepFinding explain(const ExecSpace& space, std::int64_t step);
  StepFinding watch_loss(std::int64_t step);
  StepFinding act_on_anomaly(const std::string& what);
  StepFinding report_loss(const ExecSpace& space, std::int64_t step) const;
  StepFinding act_on_bad_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step);
  /// Ranks that judge the step.
  const Communicator& judges() const { return scope_.group ? *scope_.group : comm_; }
  StepFinding report_overflow(const ExecSpace& space, std::int64_t step) const;

  Communicator comm_;
  const Optimizer& optimizer_;
  const Model& model_;
  StepScope scope_;
  NonfiniteReport nonfinite_;
  bool scales_, watches_;  ///< whether the deck asks for loss scaling, for loss_watch
  LossScaler scaler_;
  OverflowWatch overflow_;
  LossWatch loss_watch_;
  DecisionQueue decisions_;
};

}  // namespace lockstep
