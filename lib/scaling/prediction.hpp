// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/deck/run_config.hpp"
#include "scaling/compute_times.hpp"
#include "scaling/step_traffic.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

/// Predicted times and memory of a run on some number of a machine's ranks. What is said of a step is that of one with
/// the run's largest batch.
struct Prediction {
  std::int64_t ranks = 1, nodes = 1;
  std::int64_t share = 0;  ///< examples of the rank that has most

  // Seconds of a step, one part after the other:
  double computing = 0;   ///< of one rank
  double stragglers = 0;  ///< until the slowest rank has computed
  double statistics = 0;  ///< exchanges of batch norms
  double exposed = 0;     ///< sums of gradients and gathers of parameters, as far as no computation hides them
  /// Traffic of offloaded states and parameters (parallel.offload), as far as nothing hides it; none: its rate is
  /// unknown.
  std::optional<double> states = 0;
  double step() const { return computing + stragglers + statistics + exposed + states.value_or(0); }

  // Efficiencies, set by Predictor::predict. With shard, P ranks offload less than P times what one rank does, so these
  // can be above 1.
  double strong = 1;              ///< T₁(B) / (P · T_P(B)): compared with the same batch on one rank
  double weak = 1;                ///< T₁(B / P) / T_P(B): compared with a single rank that has the same share
  double memory = 0;              ///< bytes a rank
  double sent = 0, messages = 0;  ///< bytes and number of messages that a rank sends in a step, on average

  std::string choice;  ///< choice of parallel.shard: auto; empty: the deck names a way

  double run_seconds = 0;  ///< includes evaluations and checkpoints
  double node_hours() const { return static_cast<double>(nodes) * run_seconds / 3600; }

  std::string best_all_reduce;
  double best_step = 0;         ///< seconds of a step with it
  std::int64_t best_share = 0;  ///< fewest examples a rank (a power of two) that give most of the highest speed
};

/// Predicts runs of a deck on a machine.
class Predictor {
 public:
  /// Both arguments outlive this.
  Predictor(const Machine& machine, Workload& workload)
      : machine_(machine), workload_(workload), times_(machine, workload) {}

  /// Throws Error(bad_usage) if there are more ranks than examples in a batch.
  Prediction predict(int ranks);
  /// Predicts a single step with this plan. `sums`: see step_traffic.
  Prediction predict_step(int ranks, const MemoryEstimate& memory, SumsOfRanks& sums) const;
  /// Prediction::states of a step, for the deck's present parallel.offload.
  std::optional<double> states_seconds(int ranks, const MemoryEstimate& memory) const;
  const ComputeTimes& times() const { return times_; }

 private:
  /// A step to predict, independent of the ranks' shares.
  struct PlannedStep {
    int ranks;
    const ExecutionPlan& plan;
    StepTraffic exchange;
    double again = 0;  ///< ComputeTimes::part_computed_again
  };
  struct Waiting {
    double statistics = 0, exposed = 0;  ///< seconds of a step
  };
  PlannedStep planned(const ParallelConfig& config, int ranks, const ExecutionPlan& plan, SumsOfRanks& sums) const;
  /// Predicts a step of so many examples, without what Predictor::predict adds.
  Prediction predict(const PlannedStep& step, const MemoryEstimate& memory, std::int64_t batch) const;
  Waiting waiting(const PlannedStep& step, std::int64_t share, std::int64_t micro) const;
  double exposed_sums(const PlannedStep& step, std::int64_t share, std::int64_t micro,
                      GradientSumConfig::Overlap overlap) const;
  double exposed_divided(const PlannedStep& step, std::int64_t share, std::int64_t micro,
                         GradientSumConfig::Overlap overlap) const;
  double computing(const PlannedStep& step, int slowest_of_ranks, std::int64_t share, std::int64_t micro) const;
  /// Sets the efficiencies. `again`: see PlannedStep.
  void compare_with_one_rank(Prediction& prediction, double again, const MemoryEstimate& memory) const;
  std::optional<double> states_seconds(int ranks, std::int64_t share, const MemoryEstimate& memory) const;
  void find_best_all_reduce(Prediction& prediction, const ExecutionPlan& plan, std::int64_t micro) const;
  void find_best_share(Prediction& prediction, const MemoryEstimate& memory, const PlannedStep& step,
                       std::int64_t micro) const;
  double run_seconds(const Prediction& prediction, const PlannedStep& step, const MemoryEstimate& memory) const;

  const Machine& machine_;
  Workload& workload_;
  ComputeTimes times_;
};

/// Returns the times of steps with each parallel.shard that a workload allows, on `ranks` ranks of a machine whose
/// ranks_per_node are those of these nodes.
std::vector<TrainingConfig::ShardTime> shard_times(const Machine& machine, Workload& workload, RankCount ranks);

/// Sets the times by which parallel.shard: auto chooses (TrainingConfig::shard_times), if the deck asks for that choice
/// and names a machine. Throws for errors in the machine's file.
void predict_shards(RunConfig& config, RankCount ranks);
/// Does so for a run on these ranks, on rank 0, whose deck chooses for all. Collective.
void predict_shards(RunConfig& config, const Communicator& comm);

struct PredictionOptions {
  std::string machine;     ///< path of the machine's file
  std::string ranks;       ///< rising numbers, separated by commas; empty: the usual ones
  std::string plot;        ///< SVG file to write; empty: none
  bool overwrite = false;  ///< whether to replace an existing file
};

/// Returns what `lockstep predict-scaling` prints: a table with a row for each number of ranks. Throws DeckError,
/// Error(bad_usage).
std::string prediction_report(const RunConfig& config, const PredictionOptions& options);

/// Returns the line that `lockstep check --machine` adds.
std::string prediction_line(const RunConfig& config, const std::string& machine, RankCount ranks);

}  // namespace lockstep
