// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/collective/all_reduce_table.hpp"
#include "comm/topology.hpp"
#include "data/data_loader.hpp"
#include "data/upload.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/sync_batch_norm_exchange.hpp"
#include "train/noise/noise_measurement.hpp"
#include "train/phase_clock.hpp"
#include "train/step_update.hpp"

namespace lockstep {

/// What a Trainer needs to know beside the deck's sections and the network.
struct TrainingProblem {
  std::unique_ptr<Loss> loss;
  const Dataset& data;  ///< that is trained on; outlives the trainer
  NormalizeConfig normalize;
  AugmentConfig augment;                                                        ///< of the batches' images
  std::uint64_t seed = 0;                                                       ///< of dropout and the like
  RunLength length;                                                             ///< for the learning rate's course
  std::vector<AllReduceRow> measured;                                           ///< see make_all_reduce
  PushOrder pushes;                                                             ///< of parallel.asynchronous
  std::function<bool(std::int64_t)> syncs = [](std::int64_t) { return true; };  ///< see WorkersCourse
};

struct StepScales {
  double learning_rate = 0;           ///< that the last step that was applied had
  std::optional<double> loss_scale;   ///< none where the loss is not scaled
  std::optional<double> noise_scale;  ///< see NoiseScale
};

/// Does steps on batches that it is given, and evaluates. Owns the network, the optimizer and what steps have to
/// remember; knows of no files. Every rank has one, and all do the same steps.
class Trainer final : public Stateful {
 public:
  /// Collective; whatever is wrong on any rank is thrown on all of them.
  Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm);

  /// Examples → gradients, summed over micro-batches and ranks → parameters. `batch`: this rank's share, divided by
  /// partition(). `requests` is asked after the last forward or backward pass. What has become of the step; or, where
  /// the host does not wait for that (reads_late), of the one before it: steps after one that cannot be done change
  /// nothing. Collective.
  StepResult step(
      const HostBatch& batch, const std::function<StepRequests()>& requests = [] { return StepRequests{}; });
  /// What has become of the last step, where `step` has not said it, as StepUpdate::take_last has it. Waits until all
  /// parameters are there. Collective.
  std::optional<StepResult> settle();
  /// Metrics of a dataset; none if `gives_up` (see lockstep::evaluate) says so. Collective.
  std::optional<Metrics> evaluate(const Dataset& data, const std::function<bool()>& gives_up = [] { return false; });
  /// Metrics of a batch, of which this is the rank's share. Collective.
  Metrics evaluate(const HostBatch& batch);
  /// Called before parameters change: whoever reads them while gradients are computed is to be done then.
  void before_change(std::function<void()> call) { before_change_ = std::move(call); }

  /// Steps done, those that were skipped included, and the last one before it is settled.
  std::int64_t steps() const { return update_->count().done; }
  /// Numbers of the last step, over all ranks. Collective.
  StepNumbers step_numbers();
  StepScales step_scales() const;
  /// Whether the parameters are those of the run, the same on all ranks.
  bool has_common_parameters() const { return strategy_->is_common(steps()); }
  /// Seconds that steps have waited for other ranks since the last call.
  struct ExposedSeconds {
    double gradients = 0;
    std::optional<double> statistics;  ///< of batch norms; none where each rank's look at its own examples
  };
  ExposedSeconds take_exposed_seconds();
  /// Of this rank, that the last step was on.
  std::int64_t own_examples() const { return own_examples_; }

  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  StepUpdate& update() { return *update_; }
  ParallelStrategy& strategy() { return *strategy_; }
  PhaseClock& clock() { return clock_; }
  /// How ranks and micro-batches divide a batch.
  const BatchPartition& partition() const { return partition_; }
  /// The most examples that are computed at once.
  std::int64_t max_micro_batch() const { return max_micro_batch_; }

  void describe_state(StateFields& fields) override;
  /// All ranks get the parameters of rank 0, and of the optimizer's states that it has what they own
  /// (StrategyState::share). Collective.
  void share_parameters();

 private:
  // Parts of a step, in their order:
  StepContext context_of(const HostBatch& batch, const MicroBatch& micro_batch) const;
  DeviceBatch upload(const HostBatch& batch, const MicroBatch& micro_batch);
  void forward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);
  void backward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);

  Communicator comm_;
  TrainingProblem problem_;
  ExecSpace space_;
  BatchPartition partition_;
  std::int64_t max_micro_batch_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SyncBatchNormExchange> statistics_;  ///< where batch norms look at all ranks' examples
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<BatchUploader> uploader_;
  std::optional<MetricSums> sums_;
  std::optional<Evaluator> evaluator_;
  std::optional<StepGraphs> graphs_;
  std::optional<NoiseMeasurement> noise_;
  PhaseClock clock_;
  std::function<void()> before_change_ = [] {};
  std::unique_ptr<StepUpdate> update_;
  std::int64_t own_examples_ = 0;  ///< of the last step, of this rank
  HostBatch no_examples_;          ///< what ranks have in a step that they leave out
  // Last, so that it ends first: sums that are under way after a failure, for which a device may wait for ever, must
  // not outlive what they sum, nor be waited for by who frees memory. (Gradients may lie in its memory, which they do
  // not own.)
  std::unique_ptr<ParallelStrategy> strategy_;
};

}  // namespace lockstep
