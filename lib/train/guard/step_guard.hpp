// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/host_memory.hpp"
#include "data/batch/sampler.hpp"
#include "parallel/parallel_strategy.hpp"
#include "train/guard/nonfinite_report.hpp"
#include "train/guard/step_decision.hpp"
#include "train/results.hpp"
#include "train/training_config.hpp"

namespace lockstep {

/// The decision about the current step in device memory, where kernels make it, and the decisions that are on their
/// way to the host, which takes them at once or, on devices, a step late.
class DecisionQueue {
 public:
  DecisionQueue() : memory_("lockstep::step_decision", sizeof(StepDecision)) {}

  /// The decision about the current step, for kernels.
  StepDecision* on_device() const { return reinterpret_cast<StepDecision*>(memory_.data()); }
  /// Number of steps before the current one, for kernels.
  StepNumber steps_before() const { return StepNumber(&on_device()->steps_before); }
  /// Factor of the current step's loss, for kernels.
  GradientFactor loss_factor() const { return GradientFactor(&on_device()->loss_factor); }
  /// Factor of the current step's loss, as f64 [1] in device memory.
  Tensor loss_factor_tensor() const { return memory_.tensor(offsetof(StepDecision, loss_factor), DType::f64, {1}); }
  /// Scalars of the current step's update, in device memory.
  const UpdateScalars* scalars() const { return &on_device()->scalars; }

  /// Begins step number `step`, from what the host has changed, if it has.
  void begin(const ExecSpace& space, std::int64_t step);
  /// Call when the kernels that decide about the step have been started: starts the copy to the host. Returns the
  /// step's number.
  std::int64_t decided(const ExecSpace& space);

  /// Number of steps that are decided, and whose decision has not been taken.
  std::int64_t untaken() const { return decided_ - taken_; }
  /// Takes the oldest such decision, which becomes last(). Waits for the device. Returns the step's number.
  std::int64_t take();
  /// Takes the other decisions without regard, since the step of last() cannot be done: the device, which has left out
  /// all steps begun after it, goes on from there.
  void drop_later();
  /// The last decision that was taken, and what the host has changed since.
  const StepDecision& last() const { return last_; }
  /// For changes by the host, of which the device learns as the next step begins.
  StepDecision& change_last() {
    is_changed_ = true;
    return last_;
  }

  /// Makes the ranks go on with the smallest loss scale of any, if losses are scaled, and with the same memory of a
  /// loss that was not finite. Waits for the device. Collective.
  void agree(const ExecSpace& space, const Communicator& comm, bool scales);

 private:
  HostCopy<StepDecision>& copy_of(std::int64_t step) { return copies_[static_cast<std::size_t>(step % 2)]; }

  Buffer memory_;  ///< a StepDecision
  StepDecision last_;
  bool is_changed_ = true;                        ///< the host has changed `last_`, and the device does not know yet
  std::array<HostCopy<StepDecision>, 2> copies_;  ///< of the last even and the last odd step
  std::int64_t decided_ = 0, taken_ = 0;          ///< numbers of the last step decided and of the last one taken
};

/// Scales the loss of each step and decides its outcome. It guards against overflows of scaled gradients,
/// losses that are not finite or jump (loss_watch), and parameters that are not finite. A kernel decides (decide_step);
/// the host learns of it, and gives the reason, when it takes the outcome. Only loss_watch is done by the host: with
/// it, outcomes must be taken before the update.
class StepGuard final : public Stateful {
 public:
  struct Options {
    std::int64_t sums = 1;                     ///< gradient sums that each rank computes in a step
    std::vector<std::int64_t> rank_numbers{};  ///< see TrainingProblem
    bool counts_missed = false;                ///< see TrainingProblem
  };
  /// `data` is the training set. `data`, `model` and `optimizer` must outlive this object.
  StepGuard(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const Model& model,
            const Optimizer& optimizer, Options options);

  /// Begins step number `step`.
  void begin(const ExecSpace& space, const BatchPlan& plan, std::int64_t step);
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

  /// Makes the guards of `ranks` go on with the smallest loss scale of any. Waits for the device. Collective over
  /// `ranks`.
  void agree(const ExecSpace& space, const Communicator& ranks) { decisions_.agree(space, ranks, scales_); }

  /// What has been decided about steps; its last() is that of the last outcome that was taken.
  const DecisionQueue& decisions() const { return decisions_; }
  /// Takes the outcome of the oldest step that has been judged and whose outcome has not been taken. If that step
  /// cannot be done, the later ones are dropped. Waits for the device. Collective.
  StepOutcome take(const ExecSpace& space);

  /// Checks whether the last update, that of step number `step`, has left finite parameters on `ranks`. Collective over
  /// these; during training, the votes of the next step tell it.
  StepOutcome inspect_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step);
  /// Whether the parameters are finite on all of `ranks`. Collective over these.
  bool parameters_are_finite(const ExecSpace& space, const Communicator& ranks) const {
    return ranks.every_rank(nonfinite_.parameters_are_finite(space, optimizer_));
  }
  /// Returns what follows from the loss of an evaluation after step number `step`. `skipped` means: report it, and go
  /// on.
  StepOutcome inspect_validation(const Metrics& metrics, std::int64_t step);

  /// Whether the host inspects losses itself (loss_watch).
  bool watches_loss() const { return watches_; }

  /// The loss scale as of the last outcome that was taken; none if the loss is not scaled.
  std::optional<double> loss_scale() const {
    return scales_ ? std::optional<double>(decisions_.last().scaler.scale) : std::nullopt;
  }
  /// Sets the number of applied steps, and whether any has changed the parameters.
  void set_applied(std::int64_t applied, bool has_moved);

  LossWatch& loss_watch() { return loss_watch_; }

  void describe_state(StateFields& fields) override;

 private:
  StepOutcome explain(const ExecSpace& space, std::int64_t step);
  StepOutcome watch_loss(std::int64_t step);
  StepOutcome act_on_anomaly(const std::string& what);
  StepOutcome report_loss(const ExecSpace& space, std::int64_t step) const;
  StepOutcome act_on_bad_parameters(const ExecSpace& space, const Communicator& ranks, std::int64_t step);
  StepOutcome report_overflow(const ExecSpace& space, std::int64_t step) const;

  Communicator comm_;
  Options options_;
  const Optimizer& optimizer_;
  const Model& model_;
  NonfiniteReport nonfinite_;
  bool scales_, watches_;  ///< whether the deck asks for loss scaling, for loss_watch
  LossScaler scaler_;
  OverflowWatch overflow_;
  LossWatch loss_watch_;
  DecisionQueue decisions_;
};

}  // namespace lockstep
