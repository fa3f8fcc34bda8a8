// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batch/data_loader.hpp"
#include "data/dataset/dataset.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Where a RunTrainer gets its examples.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Returns this rank's share of the next batch, which stays valid until the following call. Waits for it.
  virtual const HostBatch& next() = 0;
  /// Returns this rank's share of a part of a batch (Sampler::part), which stays valid until the following call. Where
  /// parts are asked for one by one.
  virtual const HostBatch& part(std::int64_t number) = 0;
  /// Says that all parts of the run's first `batches` batches have been taken.
  virtual void skip_to_batch(std::int64_t batches) = 0;
};

/// How ranks get the examples of batches; for a Sampler.
struct BatchDealing {
  /// The part of a batch that the trainer's ranks divide; empty: all of it.
  std::function<RankShare(std::int64_t batch)> part_of{};
  std::int64_t parts_of_batch = 0;  ///< see Sampler::Options, also for parts_of
  std::function<std::span<const std::int64_t>(std::int64_t step)> parts_of{};
  bool on_demand = false;  ///< parts are asked for one by one
  /// An update takes gradients_of_update gradients. Each is of one of gradients_of_batch equal parts of a batch.
  std::int64_t gradients_of_update = 1, gradients_of_batch = 1;

  /// Number of examples behind an update of the parameters, for batches of `batch` examples.
  std::int64_t examples_of_update(std::int64_t batch) const { return batch / gradients_of_batch * gradients_of_update; }
};

/// Trains the network of a run: the Trainer of this rank, and what its ranks do with others between steps.
class RunTrainer {
 public:
  virtual ~RunTrainer() = default;
  RunTrainer(const RunTrainer&) = delete;
  RunTrainer& operator=(const RunTrainer&) = delete;

  Trainer& trainer() const { return *trainer_; }

  /// What holds throughout a run.
  struct Traits {
    /// Number of steps whose gradients have a known order: all, unless a record of asynchronous training ends earlier.
    std::int64_t known_steps = 0;
    std::int64_t steps_between_syncs = 1;  ///< most calls of `step` from common parameters to the next ones
    bool ranks_have_same_states = true;    ///< ranks with the same parameters have the same optimizer states
    bool states_change_early = false;      ///< see ParallelStrategy::Traits
  };
  const Traits& traits() const { return traits_; }

  /// What a step calls.
  struct Calls {
    std::function<RankRequests()> requests = [] { return RankRequests{}; };  ///< see Trainer::step
    std::function<void()> step_done = [] {};                                 ///< after each step of the trainer
  };
  /// Does the next step of all ranks; where ranks train separately, this may be many steps of the trainer. Requests and
  /// examples are those of all ranks. Collective.
  virtual StepResult step(BatchSource& batches, const Calls& calls) = 0;
  // See Trainer::settle, StepUpdate::take_last and Trainer::step_metrics. The metrics are those of all ranks, in all
  // of their steps since the last call of `step`.
  virtual std::optional<StepOutcome> settle() { return trainer_->settle(); }
  virtual std::optional<StepOutcome> take_last() { return trainer_->update().take_last(); }
  virtual LoggedMetrics step_metrics() { return trainer_->step_metrics(all_); }
  /// Whether all ranks have the parameters of the run.
  virtual bool has_common_parameters() const { return true; }

  /// How all ranks divide a batch.
  const BatchPartition& partition() const { return partition_; }
  /// The part of a batch that the trainer's ranks divide.
  virtual RankShare part_of(std::int64_t batch) const { return {0, batch}; }
  virtual BatchDealing dealing() const { return {}; }
  /// Splits the ranks into groups if that is due; batches are then dealt anew. Returns whether it has. Collective.
  virtual bool split_if_due() { return false; }
  /// Whether ranks split into groups before the next step.
  virtual bool splits_next() const { return false; }

  /// Returns the outcome of the gradients of all steps so far, as far as rank 0 knows; empty if gradients are always
  /// applied to the parameters that they were computed by. On rank 0.
  virtual GradientCounts gradient_counts() const { return {}; }
  /// Makes sure that what rank 0 has written to files of its own is on disk, before a checkpoint that counts on it.
  /// From any thread. Throws io_error.
  virtual void flush_files() {}
  /// Returns what this rank gives to checkpoints. The memory stays where it is.
  virtual std::vector<ShardedState> sharded_states() const = 0;
  /// Gives all ranks the parameters of rank 0, and what else they have in common (Trainer::share_parameters).
  /// Collective.
  virtual void share_parameters() = 0;

 protected:
  /// Throws if these ranks cannot train as the deck says. Collective.
  RunTrainer(const RunConfig& config, const Dataset& train, const Communicator& all);
  /// Takes over the trainer that a derived class has made. `exposed` returns the seconds that this rank has waited for
  /// others between steps since the last call.
  void set_trainer(std::unique_ptr<Trainer> trainer, std::function<double()> exposed);
  /// Throws if a step that this rank's group has done by itself cannot be done: the other groups do not know of it.
  void require_done(const StepOutcome& outcome) const;

  Communicator all_;  ///< all ranks
  Traits traits_;
  BatchPartition partition_;
  std::unique_ptr<Trainer> trainer_;
};

/// Returns what a Trainer of the deck needs, apart from what depends on its ranks.
TrainingProblem training_problem(const RunConfig& config, const Graph& graph, std::unique_ptr<Loss> loss,
                                 const Dataset& train);
/// Returns the deck with the choice that rank 0 makes for `parallel.shard: auto` on these ranks. Collective.
RunConfig with_chosen_shard(const RunConfig& config, Graph& graph, const Dataset& train, const Communicator& ranks);
/// Returns the rows of parallel.all_reduce_table if it was measured with as many ranks and nodes; otherwise none.
/// Collective.
std::vector<AllReduceRow> read_all_reduce_table(const ParallelConfig& parallel, const Communicator& ranks);

/// Makes the trainer of a deck's run on these ranks. `train` outlives it. The parameters are not initialised.
/// Collective; whatever is wrong on any rank is thrown on all of them.
std::unique_ptr<RunTrainer> make_run_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                             const Dataset& train, const Communicator& all);
/// Makes a Trainer with which all of these ranks train synchronously, whatever the deck says. `train` outlives it. The
/// parameters are not initialised. Collective; whatever is wrong on any rank is thrown on all of them.
std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& ranks);

}  // namespace lockstep
