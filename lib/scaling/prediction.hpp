// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scaling/compute_times.hpp"
#include "scaling/step_exchange.hpp"

namespace lockstep {

/// What a run is expected to take on so many ranks of a machine.
struct Prediction {
  std::int64_t ranks = 1, nodes = 1;
  std::int64_t share = 0;  ///< examples of the rank that has most

  // Seconds of a step, one after the other:
  double computing = 0;   ///< of one rank
  double stragglers = 0;  ///< until the slowest rank has computed
  double statistics = 0;  ///< exchanged by batch norms
  double exposed = 0;     ///< sums of gradients, and gathers of parameters, that nothing hides
  /// States, and parameters, come and go (parallel.offload), and nothing hides it; none: at no known rate.
  std::optional<double> states = 0;
  double step() const { return computing + stragglers + statistics + exposed + states.value_or(0); }

  // Efficiencies, without `states`.
  double strong = 1;              ///< T₁(B) / (P · T_P(B)): of the same batch on one rank
  double weak = 1;                ///< T₁(B / P) / T_P(B): of a rank by itself, with the same share
  double memory = 0;              ///< bytes a rank
  double sent = 0, messages = 0;  ///< bytes, and in how many messages, of a rank in a step, in the mean

  std::string choice;  ///< what parallel.shard: auto comes to; empty: the deck names a way

  double run_seconds = 0;  ///< with evaluations and checkpoints
  double node_hours() const { return static_cast<double>(nodes) * run_seconds / 3600; }

  std::string best_all_reduce;
  double best_step = 0;         ///< seconds of a step with it
  std::int64_t best_share = 0;  ///< least examples a rank (a power of two) with most of the speed that any has
};

/// The predictions of a deck on a machine.
class Predictor {
 public:
  /// Both outlive it.
  Predictor(const Machine& machine, Workload& workload)
      : machine_(machine), workload_(workload), times_(machine, workload) {}

  /// Throws Error(bad_usage) for ranks of which some have nothing to do.
  Prediction predict(int ranks);
  /// A step alone, which was planned so. `sums`: see step_exchange.
  Prediction predict_step(int ranks, const StepMemory& memory, SumsOfRanks& sums) const;
  /// Prediction::states of a step on so many ranks, with the deck's states elsewhere or not.
  std::optional<double> states_seconds(int ranks, const StepMemory& memory) const;
  const ComputeTimes& times() const { return times_; }

 private:
  /// A step that is predicted, whatever the ranks' shares.
  struct PlannedStep {
    int ranks;
    const StepPlan& plan;
    StepExchange exchange;
    double again = 0;  ///< ComputeTimes::part_computed_again
  };
  struct Waiting {
    double statistics = 0, exposed = 0;  ///< seconds of a step
  };
  PlannedStep planned(const ParallelConfig& config, int ranks, const StepPlan& plan, SumsOfRanks& sums) const;
  Prediction predict(const PlannedStep& step, const StepMemory& memory) const;
  Waiting waiting(const PlannedStep& step, std::int64_t share, std::int64_t micro) const;
  double exposed_sums(const PlannedStep& step, std::int64_t share, std::int64_t micro,
                      ParallelConfig::Overlap overlap) const;
  double exposed_divided(const PlannedStep& step, std::int64_t share, std::int64_t micro,
                         ParallelConfig::Overlap overlap) const;
  double computing(const PlannedStep& step, int slowest_of_ranks, std::int64_t share, std::int64_t micro) const;
  double alone(std::int64_t share, double again) const;
  void find_best_all_reduce(Prediction& prediction, const StepPlan& plan, std::int64_t micro) const;
  void find_best_share(Prediction& prediction, const StepMemory& memory, const PlannedStep& step,
                       std::int64_t micro) const;
  double run_seconds(const Prediction& prediction, const StepMemory& memory) const;

  const Machine& machine_;
  Workload& workload_;
  ComputeTimes times_;
};

}  // namespace lockstep
