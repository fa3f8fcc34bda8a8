// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "core/host_copy.hpp"
#include "data/sampler.hpp"
#include "parallel/parallel_strategy.hpp"
#include "train/guard/nonfinite_report.hpp"
#include "train/guard/overflow_watch.hpp"
#include "train/guard/step_decision.hpp"
#include "train/metrics.hpp"
#include "train/step_result.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// Decides what becomes of a step, and scales its loss: overflows of scaled gradients, losses that are not finite or
/// jump (loss_watch), and parameters that are not finite. A kernel decides (decide_step); the host hears of it when it
/// takes the finding, and then says why. Only loss_watch is the host's: with it, findings are to be taken before the
/// update.
class StepGuard final : public Stateful {
 public:
  /// `sums`: of gradients, that each rank computes in a step. `data`: that is trained on. `data`, `model` and
  /// `optimizer` outlive this.
  StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
            const Optimizer& optimizer, std::int64_t sums);

  /// Step number `step` begins, which the ranks of its scope judge.
  void begin(const ExecSpace& space, const BatchPlan& plan, const StepScope& scope, std::int64_t step);
  /// How many there were before it, for kernels.
  StepNumber steps_before() const { return StepNumber(&on_device()->steps_before); }
  /// What its loss is multiplied with.
  GradientFactor loss_factor() const { return GradientFactor(&on_device()->loss_factor); }
  /// Likewise, f64 [1] in the step's memory.
  Tensor loss_factor_tensor() const { return memory_.tensor(offsetof(StepDecision, loss_factor), DType::f64, {1}); }
  /// A stretch of this rank's gradients, or of a shard's, is final; then all of them are.
  void gradient_ready(const ExecSpace& space, ParameterRange range);
  void sum_done();
  /// The gradients of the step that was begun are summed, and this is its loss: what becomes of it is decided, and
  /// scalars() are those of its update. `bad_parameters`: that of the step before has left some that are not finite, as
  /// ranks have voted. Kernels alone, which a DeviceGraph may have recorded. Collective.
  void judge(const ExecSpace& space, ParallelStrategy& strategy, const SummedLoss& loss, bool bad_parameters,
             const UpdateOptions& options) const;
  /// It is: what was found goes on its way to the host.
  void judged(const ExecSpace& space);
  /// In the step's memory.
  const StepScalars* scalars() const { return &on_device()->scalars; }

  /// After steps that ranks have judged by themselves: all go on with the smallest loss scale of any. Waits.
  /// Collective.
  void agree(const ExecSpace& space);

  /// Steps that were judged, and whose finding was not taken.
  std::int64_t untaken() const { return judged_ - taken_; }
  /// What has become of the oldest of them. After one that cannot be done there are none. Waits. Collective over the
  /// step's ranks.
  StepFinding take(const ExecSpace& space);

  /// Whether the last update, of step number `step`, has left parameters that are finite. Collective; during training
  /// the next step's votes tell it.
  StepFinding inspect_parameters(const ExecSpace& space, std::int64_t step);
  /// Whether they are, of all ranks. Collective.
  bool parameters_are_finite(const ExecSpace& space) const {
    return comm_.all_reduce_max(nonfinite_.parameters_are_finite(space, optimizer_) ? 0 : 1) == 0;
  }
  /// What follows from the loss of an evaluation after step number `step`. `skipped`: say so, and go on.
  StepFinding inspect_validation(const Metrics& metrics, std::int64_t step);

  /// Whether the host inspects losses itself (loss_watch).
  bool watches_loss() const { return watches_; }

  // As of the last finding that was taken:
  /// None where the loss is not scaled.
  std::optional<double> loss_scale() const {
    return scales_ ? std::optional<double>(last_.scaler.scale) : std::nullopt;
  }
  /// Times the summed gradients is the gradient of the mean loss.
  double gradient_factor() const { return last_.gradient_factor; }
  /// So many steps have been applied.
  void set_applied(std::int64_t applied);

  /// Anomalies of the loss that the run has gone on from; they stay counted when it goes back.
  std::int64_t anomalies() const { return loss_watch_.anomalies(); }
  void set_anomalies(std::int64_t anomalies) { loss_watch_.set_anomalies(anomalies); }

  void describe_state(StateFields& fields) override;

 private:
  StepDecision* on_device() const { return reinterpret_cast<StepDecision*>(memory_.data()); }
  StepFinding explain(const ExecSpace& space, std::int64_t step);
  StepFinding watch_loss(std::int64_t step);
  StepFinding act_on_anomaly(const std::string& what);
  StepFinding report_loss(const ExecSpace& space, std::int64_t step) const;
  StepFinding act_on_bad_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step);
  /// That judge the step.
  const Communicator& judges() const { return scope_.group ? *scope_.group : comm_; }
  StepFinding report_overflow(const ExecSpace& space, std::int64_t step) const;

  Communicator comm_;
  const Optimizer& optimizer_;
  const Model& model_;
  StepScope scope_;
  NonfiniteReport nonfinite_;
  bool scales_, watches_;  ///< the deck wants loss scaling, loss_watch
  LossScaler scaler_;
  OverflowWatch overflow_;
  LossWatch loss_watch_;
  Buffer memory_;                                 ///< a StepDecision
  StepDecision last_;                             ///< as of the last finding that was taken
  bool is_changed_ = true;                        ///< by the host, and the device does not know yet
  std::array<HostCopy<StepDecision>, 2> copies_;  ///< of steps of even and of odd number
  std::int64_t judged_ = 0, taken_ = 0;           ///< numbers of the last such steps
};

}  // namespace lockstep
