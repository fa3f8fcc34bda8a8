// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "train/evaluator.hpp"
#include "train/guard/step_guard.hpp"
#include "train/phase_clock.hpp"
#include "train/step_graphs.hpp"
#include "train/step_votes.hpp"
#include "train/update_coefficients.hpp"

namespace lockstep {

/// State of a step whose update begins while gradients are computed, because these cannot change its outcome.
struct EarlyUpdate {
  bool is_possible = false;              ///< possible in this run
  std::optional<StepVotes::Vote> votes;  ///< of all ranks, once they are there
  bool has_begun = false;                ///< the step is judged, and its update has begun
  std::optional<StepOutcome> outcome;    ///< what `judge` has returned then
};

/// Concludes a step from its losses and gradients: ranks vote on it, it is judged, and parameters change or stay.
/// Counts the steps by their outcome, which the host learns at once or, on devices, a step late.
class StepUpdate final : public Stateful {
 public:
  /// What a StepUpdate works on; all of it must outlive the StepUpdate.
  struct Parts {
    Model& model;
    Optimizer& optimizer;
    ParallelStrategy& strategy;
    const MetricSums& losses;  ///< of the current step
    StepGraphs& graphs;        ///< through which kernels are started
    PhaseClock& clock;
    std::function<void()> before_change;   ///< called before parameters change
    std::function<void()> between_layers;  ///< called where work of ranks with each other can go on; must not wait
  };

  /// `data` is the training set. Throws KeyError if the schedule does not go with the run's length.
  StepUpdate(const TrainingConfig& config, const Communicator& comm, const Dataset& data, const RunLength& length,
             StepGuard::Options options, std::unique_ptr<StepVotes> votes, const Parts& parts);

  /// Begins a step on this rank's share `batch`.
  void begin(const BatchPlan& batch);

  /// Asks for what this rank wants of the step, at the latest moment.
  using Requests = std::function<RankRequests()>;
  /// Call when the forward pass of a micro-batch has been started. After the last one, casts this rank's vote if the
  /// update may begin early.
  void forward_started(bool is_last, const Requests& requests);
  /// Call when more gradients are on their way. Does what can be done without waiting.
  void advance();
  /// Waits until all gradients are summed and all votes are there. Casts this rank's vote if `forward_started` has not:
  /// what ranks do together in it, all do at the same place. Collective.
  StepVotes::Vote finish_gradients(const Requests& requests);
  /// Judges the step and updates the parameters. Collective.
  StepResult conclude(const StepVotes::Vote& votes);
  /// Ends a step that counts.
  void end();

  /// Returns the outcome of the last step, if `conclude` has not returned it. Waits for it. Collective.
  std::optional<StepOutcome> take_last();

  const StepCount& count() const { return count_; }
  StepGuard& guard() { return guard_; }
  const DecisionQueue& decisions() const { return guard_.decisions(); }
  /// Learning rate of the last step; if that was skipped, the one that the schedule has for the last applied step.
  double learning_rate() const;
  /// What the optimizer multiplies with in the step after `applied` others of a run that skips none.
  UpdateScalars scalars(std::int64_t applied) const { return coefficients_.scalars(applied); }
  /// The sum of squares of the last step's gradients. Collective.
  double gradient_square() { return f64_on_host(space_, coefficients_.gradient_square(space_, parts_.strategy)); }
  /// Call before others overwrite the last step's gradients. Collective.
  void keep_gradient_square() { coefficients_.keep_gradient_square(space_, parts_.strategy); }

  /// Does `work` while the parameters are their moving average, if there is one. Collective.
  template <class Work>
  auto with_averages(const Work& work) {
    if (!parts_.optimizer.averages()) return work();
    const auto swap = [this] { parts_.optimizer.swap_average(space_, parts_.model.parameters()); };
    parts_.before_change();
    parts_.strategy.change_parameters(space_, swap);
    auto result = [&] {
      try {
        return work();
      } catch (...) {
        swap();  // not collective: a rank that has failed must not wait for others
        throw;
      }
    }();
    parts_.strategy.change_parameters(space_, swap);
    return result;
  }

  /// Takes the optimizer's state as that of a run that has applied so many steps, the last one with this learning rate
  /// (0: not known).
  void branch_after(std::int64_t optimizer_steps, double learning_rate);
  /// Declares that the optimizer's state results from so many steps; all other applied steps count as missed.
  void set_optimizer_steps(std::int64_t steps);
  /// Goes to the place after `steps` steps of the run, and on from there. The optimizer's state results from
  /// `optimizer_steps`; none: from all applied ones. Collective.
  void go_to(std::int64_t steps, std::optional<std::int64_t> optimizer_steps);
  void describe_state(StateFields& fields) override;
  /// Call when the state was set: the next step goes on from there. Collective.
  void provide_next() { coefficients_.provide(space_, {.count = count_}); }

 private:
  void vote(const RankRequests& requests);
  void provide_coefficients();
  void update_early();
  SummedLoss summed_loss(const StepVotes::Vote& votes) const;
  std::optional<StepOutcome> judge(const StepVotes::Vote& votes);
  StepOutcome take_outcome();
  void set_applied() { guard_.set_applied(count_.applied(), count_.applied() > count_.missed); }

  Communicator comm_;
  Parts parts_;
  ExecSpace space_;
  UpdateCoefficients coefficients_;
  StepGuard guard_;
  std::unique_ptr<StepVotes> votes_;
  StepCount count_;
  std::int64_t examples_ = 0;  ///< of all ranks together, in the last step
  EarlyUpdate early_;
  bool has_voted_ = false;  ///< this rank has voted in this step
  bool counts_missed_;      ///< see TrainingProblem
  bool reads_at_once_;      ///< the host takes each outcome at once: coefficients of the next step depend on it
};

}  // namespace lockstep
