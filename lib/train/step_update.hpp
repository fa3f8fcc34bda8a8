// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "train/evaluator.hpp"
#include "train/guard/step_guard.hpp"
#include "train/optimizer_steps.hpp"
#include "train/phase_clock.hpp"
#include "train/step_graphs.hpp"
#include "train/step_voter.hpp"

namespace lockstep {

/// Of a step whose update begins while gradients are computed, since these cannot change what becomes of it.
struct EarlyUpdate {
  bool may_be = false;              ///< in this run
  std::optional<StepVote> votes;    ///< of all ranks
  std::optional<StepResult> begun;  ///< what has become of the step
};

/// What follows from the losses and gradients of a step: ranks vote on it, it is judged, and parameters change, or do
/// not. Counts the steps by what has become of them, of which the host hears at once or, on devices, a step late.
class StepUpdate final : public Stateful {
 public:
  /// What it works on; all outlives this.
  struct Parts {
    Model& model;
    Optimizer& optimizer;
    ParallelStrategy& strategy;
    const MetricSums& losses;  ///< of the step
    StepGraphs& graphs;        ///< by which kernels are begun
    PhaseClock& clock;
    std::function<void()> before_change;  ///< is called before parameters change
  };

  /// `data`: that is trained on. `sums`: of gradients, that each rank computes in a step. Throws KeyError where the
  /// schedule does not go with the run's length.
  StepUpdate(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const RunLength& length,
             std::int64_t sums, std::unique_ptr<StepVoter> voter, const Parts& parts);

  /// A step on this rank's share `batch` begins, on `examples` of all ranks. `scope`: as the strategy has it.
  void begin(const BatchPlan& batch, const StepScope& scope, std::int64_t examples);
  const StepScope& scope() const { return scope_; }

  /// The forward pass of a micro-batch has been started.
  void look() { voter_->look(space_, parts_.losses.in_memory(), parts_.optimizer.nonfinite()); }
  /// This rank votes; after the last forward pass where the update may begin early, else after all passes. What ranks
  /// do together here, they do at the same place.
  void vote(const StepRequests& requests);
  bool may_be_early() const { return early_.may_be; }
  bool has_voted() const { return has_voted_; }
  /// More of the gradients are summed: does what can be done now.
  void advance();
  /// Waits until all are, and all votes are there. Collective.
  StepVote finish_gradients();
  /// What becomes of the step, or of the one before it, and the update. Collective.
  StepResult conclude(const StepVote& votes);
  /// The step counts, and is over. Where groups of ranks have gone their own ways, and it is time, they synchronize.
  void end();

  /// What has become of the last step, where `conclude` has not said it. Waits for it. Collective.
  std::optional<StepResult> take_last();

  const StepCount& count() const { return count_; }
  StepGuard& guard() { return guard_; }
  /// The learning rate of the last step; if it was skipped, by the course of the last one that was applied.
  double learning_rate() const;
  /// As ParallelStrategy::Coefficients.
  StepScalars scalars(std::int64_t applied, std::optional<std::int64_t> own) const {
    return optimizer_steps_.scalars(applied, own);
  }
  /// The sum of squares of the last step's gradients. Collective.
  double gradient_square() { return f64_on_host(space_, optimizer_steps_.gradient_square(space_, parts_.strategy)); }

  /// Does `work` while the parameters are their moving average, where there is one. Collective.
  template <class Work>
  auto with_averages(const Work& work) {
    if (!parts_.optimizer.averages() || count_.optimizer_steps() == 0) return work();
    const auto swap = [this] { parts_.optimizer.swap_average(space_, parts_.model.parameters()); };
    parts_.before_change();
    parts_.strategy.change_parameters(space_, swap);
    auto result = [&] {
      try {
        return work();
      } catch (...) {
        swap();  // ranks that have failed wait for nobody
        throw;
      }
    }();
    parts_.strategy.change_parameters(space_, swap);
    return result;
  }

  /// The optimizer's state is that of a run that has applied so many steps.
  void branch_after(std::int64_t optimizer_steps);
  void describe_state(StateFields& fields) override;
  /// The state was set: the next step goes on from there. Collective.
  void go_on() { optimizer_steps_.provide(space_, {.count = count_}); }

 private:
  void provide_coefficients();
  void update_early();
  SummedLoss summed_loss(const StepVote& votes) const;
  StepResult judge(const StepVote& votes);
  StepResult take_finding();

  Communicator comm_;
  Parts parts_;
  ExecSpace space_;
  OptimizerSteps optimizer_steps_;
  StepGuard guard_;
  std::unique_ptr<StepVoter> voter_;
  StepCount count_;
  StepScope scope_;            ///< of the last step
  std::int64_t examples_ = 0;  ///< of all ranks, likewise
  EarlyUpdate early_;
  bool has_voted_ = false;  ///< this rank, in this step
  bool reads_at_once_;      ///< what a group has counted by itself, its next step needs
};

}  // namespace lockstep
