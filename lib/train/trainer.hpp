// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/topology.hpp"
#include "data/batch/data_loader.hpp"
#include "data/batch/upload.hpp"
#include "parallel/make_strategy.hpp"
#include "parallel/sync_batch_norm_exchange.hpp"
#include "train/gradient_noise_scale.hpp"
#include "train/phase_clock.hpp"
#include "train/step_update.hpp"

namespace lockstep {

/// What a Trainer needs besides the deck's sections and the network.
struct TrainingProblem {
  std::unique_ptr<Loss> loss;
  const Dataset& data;  ///< the training set; must outlive the trainer
  Normalization normalization;
  AugmentConfig augment;               ///< of the batches' images
  std::uint64_t seed = 0;              ///< of dropout and other random numbers
  RunLength length;                    ///< for the learning-rate schedule
  std::vector<AllReduceRow> measured;  ///< see make_all_reduce
  /// Makes the strategy by which these ranks share the work, when the trainer is made; empty: as the deck says.
  /// Collective.
  MakeStrategy strategy{};
  /// Called between layers, and where a step waits for other ranks. Must not wait. If given, passes are not recorded.
  std::function<void()> between_layers{};
  /// Skipped steps advance the learning rate's schedule, so that groups which train separately stay on one schedule.
  bool counts_missed = false;
  bool measures_noise = true;                ///< see NoiseScale
  std::vector<std::int64_t> rank_numbers{};  ///< of the trainer's ranks in messages; empty: those of the communicator
};

struct LoggedScales {
  double learning_rate = 0;           ///< of the last applied step
  std::optional<double> loss_scale;   ///< none if the loss is not scaled
  std::optional<double> noise_scale;  ///< see NoiseScale
};

/// Trains on batches that it is given, synchronously on the ranks of a communicator, and evaluates. Owns the network,
/// the optimizer and the state of steps; knows nothing of files. Every rank has one, and all do the same steps.
class Trainer final : public Stateful {
 public:
  /// Collective; an error on any rank is thrown on all of them.
  Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm);
  /// Goes on with some of its ranks, which train by themselves from here on, by a deck that differs in `batch` and
  /// `parallel` alone. Ranks must have whole parameters. The caller restores the state (describe_state). For
  /// `counts_missed` and `rank_numbers`, see TrainingProblem. Collective over `ranks`.
  void continue_on(const Communicator& ranks, const TrainingConfig& config, bool counts_missed,
                   std::vector<std::int64_t> rank_numbers);

  /// Does a step: examples → gradients, summed over micro-batches and ranks → parameters. `batch` is this rank's share,
  /// divided by partition(). `requests` is called after the last forward or backward pass. On devices, the host
  /// does not wait for the step's outcome (reads_late in StepUpdate::judge): steps after one that cannot be done change
  /// nothing. Collective.
  StepResult step(
      const HostBatch& batch, const std::function<RankRequests()>& requests = [] { return RankRequests{}; });
  /// Ends what the last step has left under way: waits until all parameters are there, and returns the step's outcome
  /// if `step` has not. Call before parameters are read; StepUpdate::take_last gives the outcome alone. Collective.
  std::optional<StepOutcome> settle();
  /// Returns metrics of a dataset; none if `gives_up` (see Evaluator::evaluate) says so. Collective over `ranks`, which
  /// have the same parameters, and among which are all ranks of the trainer.
  std::optional<Metrics> evaluate(const Dataset& data, const Communicator& ranks,
                                  const std::function<bool()>& gives_up);
  std::optional<Metrics> evaluate(const Dataset& data) {
    return evaluate(data, comm_, [] { return false; });
  }
  /// Returns metrics of a batch, of which `batch` is this rank's share. Collective.
  Metrics evaluate(const HostBatch& batch);
  /// Sets a function that is called before parameters change: readers of parameters that run during the gradients'
  /// computation must be done when it returns.
  void before_change(std::function<void()> call) { before_change_ = std::move(call); }
  /// Runs `change`, which changes the parameters that this rank owns, between steps. Collective.
  void change_parameters(const std::function<void()>& change) {
    before_change_();
    strategy_->change_parameters(space_, change);
  }

  // What the guard says (StepGuard) of the parameters after the last step, on `ranks`, and of an evaluation of them.
  StepOutcome inspect_parameters(const Communicator& ranks) {
    return update_->guard().inspect_parameters(space_, ranks, steps());
  }
  bool parameters_are_finite(const Communicator& ranks) {
    return update_->guard().parameters_are_finite(space_, ranks);
  }
  StepOutcome inspect_validation(const Metrics& metrics) {
    return update_->guard().inspect_validation(metrics, steps());
  }
  LossWatch& loss_watch() { return update_->guard().loss_watch(); }

  /// Number of steps done, skipped ones included. The last one counts before it is settled.
  std::int64_t steps() const { return update_->count().done; }
  /// Returns loss and metrics of the last step over `ranks`, and the gradient norm over the trainer's ranks. Collective
  /// over `ranks`, among which are all of these.
  LoggedMetrics step_metrics(const Communicator& ranks);
  LoggedMetrics step_metrics() { return step_metrics(comm_); }
  /// Sums of this rank's losses in the last step. Waits for the device.
  LossSums loss_sums() const { return sums_->local(space_); }
  /// Returns loss and metrics of steps in which this rank has had such sums. Collective over `ranks`.
  Metrics metrics_of(const LossSums& sums, const Communicator& ranks) const {
    return sums_->reduce(sums, ranks, *problem_.loss);
  }
  LoggedScales logged_scales() const;
  /// Seconds in which steps have waited for other ranks.
  struct ExposedSeconds {
    double gradients = 0;
    std::optional<double> statistics;  ///< of batch norms; none if each sees only its rank's examples
  };
  ExposedSeconds take_exposed_seconds();
  /// Number of examples of this rank in the last step.
  std::int64_t own_examples() const { return own_examples_; }

  const Communicator& ranks() const { return comm_; }
  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  StepUpdate& update() { return *update_; }
  ParallelStrategy& strategy() { return *strategy_; }
  PhaseClock& clock() { return clock_; }
  /// How ranks and micro-batches divide a batch.
  const BatchPartition& partition() const { return partition_; }
  /// Largest number of examples that are computed at once.
  std::int64_t max_micro_batch() const { return max_micro_batch_; }

  void describe_state(StateFields& fields) override;
  /// Gives all ranks the parameters of rank 0 and, of the optimizer's states that rank 0 has, what they own
  /// (ParallelStrategy::share). Before the first step that counts, the moving average is the parameters. Collective.
  void share_parameters();

 private:
  void join_ranks(const Topology& topology, std::unique_ptr<ParallelStrategy> strategy);
  void attach_hooks(const Topology& topology);
  void make_update(const Topology& topology);
  // Parts of a step, in their order:
  PassContext context_of(const HostBatch& batch, const MicroBatch& micro_batch) const;
  DeviceBatch upload(const HostBatch& batch, const MicroBatch& micro_batch);
  void forward(const PassContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);
  void backward(const PassContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);

  Communicator comm_;
  TrainingConfig config_;
  TrainingProblem problem_;
  ExecSpace space_;
  std::optional<NodeMemory> gradient_memory_;  ///< in which gradients may lie
  BatchPartition partition_;
  std::int64_t max_micro_batch_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SyncBatchNormExchange> statistics_;  ///< if batch norms look at all ranks' examples; else null
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<BatchUploader> uploader_;
  std::optional<MetricSums> sums_;
  std::optional<StepGraphs> graphs_;
  std::optional<NoiseMeasurement> noise_;
  PhaseClock clock_;
  std::function<void()> before_change_ = [] {};
  std::unique_ptr<StepUpdate> update_;
  std::int64_t own_examples_ = 0;  ///< of this rank, in the last step
  // The last member, so that it is destroyed first. After a failure, sums may be under way for which a device waits for
  // ever: they must not outlive the memory that they sum, and whoever frees that memory must not wait for them.
  // (Gradients may lie in the strategy's memory without owning it.)
  std::unique_ptr<ParallelStrategy> strategy_;
};

}  // namespace lockstep
