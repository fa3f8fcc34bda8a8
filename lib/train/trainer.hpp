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
#include "parallel/step_consensus.hpp"
#include "parallel/sync_batch_norm_exchange.hpp"
#include "train/evaluator.hpp"
#include "train/noise_measurement.hpp"
#include "train/optimizer_steps.hpp"
#include "train/phase_clock.hpp"
#include "train/step_graphs.hpp"
#include "train/step_guard.hpp"
#include "train/step_voter.hpp"

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
  std::function<bool(std::int64_t)> meets = [](std::int64_t) { return true; };  ///< see WorkersCourse
};

/// Steps of a run.
struct StepCount {
  std::int64_t done = 0, skipped = 0;
  std::int64_t before = 0;  ///< that were applied in the run that this one has branched from

  std::int64_t applied() const { return done - skipped; }
  /// That the optimizer's state comes of.
  std::int64_t optimizer_steps() const { return before + applied(); }
  void describe_state(StateFields& fields);
};

struct StepScales {
  double learning_rate = 0;           ///< that the last step that was applied had
  std::optional<double> loss_scale;   ///< none where the loss is not scaled
  std::optional<double> noise_scale;  ///< see NoiseScale
};

/// Of a step whose update begins while gradients are computed, since these cannot change what becomes of it.
struct EarlyUpdate {
  bool may_be = false;              ///< in this run
  bool voted = false;               ///< this rank has
  std::optional<StepVote> votes;    ///< of all ranks
  std::optional<StepResult> begun;  ///< what has become of the step
};

/// Does steps on batches that it is given, and evaluates. Owns the network, the optimizer and what steps have to
/// remember; knows of no files. Every rank has one, and all do the same steps.
class Trainer final : public Stateful {
 public:
  /// `comm` outlives the trainer. Collective; whatever is wrong on any rank is thrown on all of them.
  Trainer(const TrainingConfig& config, Graph graph, TrainingProblem problem, const Communicator& comm);

  /// Examples → gradients, summed over micro-batches and ranks → parameters. `batch`: this rank's share, divided by
  /// partition(). `requests` is asked behind the last forward or backward pass. What has become of the step; or, where
  /// the host does not wait for that (reads_late), of the one before it: steps behind one that cannot be done change
  /// nothing. Collective.
  StepResult step(
      const HostBatch& batch, const std::function<StepRequests()>& requests = [] { return StepRequests{}; });
  /// Of ParallelStrategy::Dealing::as_they_come, what this rank's next step is on.
  PartRequest next_part();
  /// What has become of the last step, where `step` has not said it. Afterwards all that is said of steps is so for the
  /// last one, too. Waits for it. Collective.
  std::optional<StepResult> take_last();
  /// Likewise, and waits until all parameters are there. Collective.
  std::optional<StepResult> settle();
  /// Metrics of a dataset; none if `gives_up` (see lockstep::evaluate) says so. Collective.
  std::optional<Metrics> evaluate(const Dataset& data, const std::function<bool()>& gives_up = [] { return false; });
  /// Metrics of a batch, of which this is the rank's share. Collective.
  Metrics evaluate(const HostBatch& batch);
  /// Makes the network ready for so many examples at once, so that steps need not.
  void prepare(std::int64_t examples) { model_->prepare(examples); }
  /// Called before each update: whoever reads parameters while gradients are computed is to be done then.
  void before_update(std::function<void()> call) { before_update_ = std::move(call); }

  /// Steps done, those that were skipped included, and the last one before it is settled.
  std::int64_t steps() const { return count_.done; }
  /// Without those that are known to be skipped.
  std::int64_t applied_steps() const { return count_.applied(); }
  /// The optimizer's state is that of a run that has applied so many steps.
  void branch_behind(std::int64_t optimizer_steps);
  /// Numbers of the last step, over all ranks. Collective.
  StepNumbers step_numbers();
  StepScales step_scales() const;
  /// Whether the parameters are those of the run, the same on all ranks.
  bool has_common_parameters() const { return strategy_->is_common(count_.done); }
  /// Seconds that steps have waited for other ranks since the last call.
  struct ExposedSeconds {
    double gradients = 0;
    std::optional<double> statistics;  ///< of batch norms; none where each rank's look at its own examples
  };
  ExposedSeconds take_exposed_seconds();
  /// That this rank has computed passes of steps, as far as they are known to have ended; with the wait for statistics.
  double pass_seconds() const { return clock_.seconds(StepPhase::forward) + clock_.seconds(StepPhase::backward); }

  /// Of this rank, that the last step was on.
  std::int64_t own_examples() const { return own_examples_; }

  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  StepGuard& guard() { return *guard_; }
  ParallelStrategy& strategy() { return *strategy_; }
  PhaseClock& clock() { return clock_; }
  /// How ranks and micro-batches divide a batch.
  const BatchPartition& partition() const { return partition_; }
  /// The most examples that are computed at once.
  std::int64_t max_micro_batch() const { return max_micro_batch_; }

  void describe_state(StateFields& fields) override;
  /// All ranks get the parameters of rank 0, and of the optimizer's states that it has (ParallelStrategy::whole_states)
  /// what they own. Collective.
  void share_parameters();

 private:
  double gradient_square();
  // Parts of a step, in their order:
  StepContext context_of(const HostBatch& batch, const MicroBatch& micro_batch) const;
  DeviceBatch upload(const HostBatch& batch, const MicroBatch& micro_batch);
  void forward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);
  void backward(const StepContext& context, const MicroBatch& micro_batch, const DeviceBatch& examples);
  void vote(const StepRequests& requests);
  void provide_coefficients() { optimizer_steps_->provide(space_, applied_steps() - guard_->untaken()); }
  void update_early();
  StepVote finish_gradients();
  StepResult conclude(const StepVote& votes);
  SummedLoss summed_loss(const StepVote& votes) const;
  StepResult judge(const StepVote& votes);
  void update();
  void meet();
  StepResult take_finding();
  /// Begins a part of the step: as a graph, unless other ranks take part in it, for which the host sees to it.
  enum class Ranks { this_one, all };
  template <class Work>
  void begin_part(const StepGraphs::Part& part, Ranks ranks, const Work& work) {
    if (ranks == Ranks::all && comm_.size() > 1) work();
    else graphs_->run(space_, part, work);
  }
  /// A part of the step that works on a micro-batch.
  StepGraphs::Part part_of(StepGraphs::Part::Kind kind, const MicroBatch& micro_batch,
                           const DeviceBatch& examples) const;
  /// Whether findings are taken a step late: a device has the next step by then.
  bool reads_late() const { return memory_is_separate && !guard_->watches_loss(); }
  /// Does `work` while the parameters are their moving average, where there is one.
  template <class Work>
  auto with_averages(const Work& work);
  void swap_average();

  const Communicator& comm_;
  TrainingProblem problem_;
  ExecSpace space_;
  BatchPartition partition_;
  std::int64_t max_micro_batch_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SyncBatchNormExchange> statistics_;  ///< where batch norms look at all ranks' examples
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<OptimizerSteps> optimizer_steps_;
  std::optional<StepVoter> voter_;
  std::optional<StepGuard> guard_;
  std::optional<BatchUploader> uploader_;
  std::optional<MetricSums> sums_;
  std::optional<StepGraphs> graphs_;
  std::optional<NoiseMeasurement> noise_;
  PhaseClock clock_;
  std::function<void()> before_update_ = [] {};
  StepCount count_;
  std::int64_t last_examples_ = 0;  ///< of the last step, of all ranks
  std::int64_t own_examples_ = 0;   ///< of the last step, of this rank
  HostBatch no_examples_;           ///< what ranks have in a step that they leave out
  StepRanks step_ranks_;            ///< of the last step
  EarlyUpdate early_;
  // Last, so that it ends first: sums that are under way after a failure, for which a device may wait for ever, must
  // not outlive what they sum, nor be waited for by who frees memory. (Gradients may lie in its memory, which they do
  // not own.)
  std::unique_ptr<ParallelStrategy> strategy_;
};

}  // namespace lockstep
