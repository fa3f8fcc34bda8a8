// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "comm/communicator.hpp"
#include "comm/topology.hpp"
#include "data/data_loader.hpp"
#include "data/upload.hpp"
#include "monitor/progress.hpp"
#include "monitor/selection.hpp"
#include "ops/reduction.hpp"
#include "optim/gradient_scale.hpp"
#include "parallel/bucketed_reducer.hpp"
#include "parallel/replica_audit.hpp"
#include "parallel/shared_coefficients.hpp"
#include "parallel/step_votes.hpp"
#include "parallel/sync_batch_norm_exchange.hpp"
#include "resilience/stop_request.hpp"
#include "resilience/watchdog.hpp"
#include "run/experiment.hpp"
#include "run/run_folder.hpp"
#include "run/run_state.hpp"
#include "train/evaluator.hpp"
#include "train/loss_watch.hpp"
#include "train/noise_scale.hpp"
#include "train/nonfinite_report.hpp"
#include "train/overflow_watch.hpp"
#include "train/phase_clock.hpp"

namespace lockstep {

/// One run: from a deck to a trained network in run.output_dir. Every rank has one, and all do the same steps.
class Trainer {
 public:
  /// Opens everything, restores a checkpoint where there is one to go on from, and makes the output
  /// folder. Collective; whatever is wrong on any rank is thrown on all of them.
  Trainer(const RunConfig& config, const Communicator& comm);

  /// Trains until the deck says stop (`done`), or somebody else does (`stopped_early`), and leaves a summary.
  ExitStatus run();

  /// One step of all ranks; `run` is a loop over it. Examples → gradients, summed over micro-batches
  /// and ranks → parameters.
  void train_step();

  /// Of the whole run.
  std::int64_t total_steps() const { return lockstep::total_steps(config_, data_.train->size()); }

  Model& model() { return *model_; }
  const RunState& state() const { return state_; }
  /// Of the last step, over all ranks. Collective.
  Metrics step_metrics();

 private:
  // trainer_set_up.cpp
  void start(Graph graph);
  void open_folder();
  void say_what_has_changed(const Checkpoint& checkpoint) const;
  std::vector<std::int64_t> batch_sizes() const;
  void resume(const Checkpoint& checkpoint, const std::string& file);
  void load_starting_weights();
  void share_state();
  void make_loader();
  void share_statistics();
  std::vector<AllReduceRow> read_all_reduce_table() const;

  // trainer_step.cpp
  StepContext context(std::int64_t first_example, const MicroBatch& micro_batch) const;
  void gradients_final(ParameterRange range);
  void sum_final(std::int64_t examples);
  void reduce_gradients();
  double square_of(const Tensor& numbers) const { return sum_of_squares(space_, numbers, norm_scratch_.get()); }
  bool measures_noise() const;
  StepVotes own_votes();
  void update_parameters(double examples_in_step);
  /// Of a step: its parameters are updated; its gradients are of no use; it cannot be done at all; the run goes back to
  /// the last checkpoint. The last two leave nothing behind.
  enum class Outcome { taken, left_out, impossible, goes_back };
  Outcome judge(double loss);
  Outcome act_on_anomaly();
  bool loss_is_of_use(double loss);
  bool goes_on() const { return outcome_ == Outcome::taken || outcome_ == Outcome::left_out; }
  Outcome act_on_bad_parameters(std::int64_t step, NonfiniteReport::Batch batch);
  bool parameters_are_of_use();
  Outcome leave_out(const std::string& why);
  bool wants_to_stop(bool saved);
  double seconds_to_stop(bool saved) const;
  /// Of the step behind `step` others.
  double learning_rate(const RunConfig& config, std::int64_t step) const;

  // trainer.cpp
  bool train_to_the_end();
  bool finished() const;
  void after_step(double seconds);
  StepRecord step_record(bool logged);
  void log_step();
  bool ends_between_rows() const;
  bool evaluation_due() const;
  std::optional<Metrics> evaluate(const Dataset& data);
  bool evaluate_and_log();
  bool test_and_log();
  void compare_replicas();
  bool checkpoint_due();
  void write_checkpoint();
  void before_commit();
  void finish_checkpoints();
  Checkpoint snapshot(std::span<std::byte> memory);
  std::size_t state_bytes() const;
  [[noreturn]] void give_up();
  ExitStatus stop();
  void roll_back();
  void write_summary(const std::string& status);
  void log_banner() const;
  /// The running epoch, or the one that has just ended; from 1 on.
  std::int64_t epoch() const { return state_.position.epoch + (ended_epoch() ? 0 : 1); }
  bool ended_epoch() const { return state_.position.next == 0; }

  const Communicator& comm_;
  RunConfig config_;
  std::string deck_;  ///< resolved, as text
  ExecSpace space_;
  Watchdog watchdog_;
  RunFolder folder_;
  Datasets data_;
  std::string provenance_;  ///< of what this run is made; JSON
  std::unique_ptr<Loss> loss_;
  BatchPartition partition_;      ///< of batches, among the ranks and into micro-batches
  std::int64_t share_ = 0;        ///< most examples of a rank in a step
  std::int64_t micro_batch_ = 0;  ///< most of them computed at once
  Topology topology_;
  std::optional<NodeMemory> gradient_memory_;  ///< of this node
  std::unique_ptr<Model> model_;
  std::unique_ptr<SyncBatchNormExchange> statistics_;  ///< where batch norms look at all ranks' examples
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<SharedCoefficients> coefficients_;  ///< of the optimizer
  std::optional<GradientScale> gradient_scale_;
  std::optional<NonfiniteReport> nonfinite_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<BatchUploader> uploader_;
  std::unique_ptr<MetricSums> sums_;
  std::optional<LossScaler> scaler_;       ///< where the loss is scaled
  std::optional<OverflowWatch> overflow_;  ///< likewise
  std::optional<ReplicaAudit> audit_;      ///< where the deck wants one
  std::optional<LossWatch> loss_watch_;    ///< likewise
  std::optional<Selection> selection_;
  bool is_among_the_best_ = false;  ///< the last evaluation; its checkpoint is not begun yet
  NoiseScale noise_scale_;
  OwnedTensor norm_scratch_;
  std::unique_ptr<DataLoader> loader_;
  Progress progress_;

  std::optional<CheckpointWriter> writer_;  ///< of rank 0
  StopRequest stop_request_;

  RunState state_;
  Outcome outcome_ = Outcome::taken;   ///< of the last step
  std::string failure_;                ///< why it could not be done
  std::string went_back_to_;           ///< the checkpoint of the last rollback
  StepVotes votes_;                    ///< of the last step; while it is being done, this rank's
  std::string stop_reason_;            ///< of this rank
  double gradient_factor_ = 1;         ///< times the summed gradients of the last step is the gradient of the mean loss
  bool complete_ = false;              ///< nothing is left to do, as an earlier process has found
  std::int64_t examples_in_step_ = 0;  ///< of all ranks, in the last step
  std::int64_t audited_step_ = -1;
  double longest_step_ = 0;   ///< seconds
  double start_seconds_ = 0;  ///< from the start of the process to the first step
  std::optional<Metrics> validation_metrics_, test_metrics_;
  Timer since_checkpoint_;
  PhaseClock clock_;
};

}  // namespace lockstep
