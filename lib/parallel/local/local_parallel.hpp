// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parallel/data_parallel.hpp"
#include "parallel/local/adasum_exchange.hpp"
#include "parallel/local/averaging_weights.hpp"
#include "parallel/local/group_states.hpp"
#include "parallel/local/period_steps.hpp"
#include "parallel/local/replica_update.hpp"
#include "parallel/local/streaming_sync.hpp"

namespace lockstep {

/// The ranks that step together (parallel.local.group). Throws KeyError (parallel.local.node_every), on all ranks,
/// where groups of a node are to synchronize and a group has ranks on several. Collective.
Topology local_group_of(const LocalConfig& config, const Topology& topology);

/// Whole replicas, one for each group of ranks, which steps by itself (local SGD: Stich 2019; post-local SGD: Lin et
/// al. 2020). Every `every` steps groups synchronize: with n_g examples that group g has stepped on since the last
/// synchronization, and parameters x_g, their average is x̄ = Σ n_g x_g / Σ n_g, and what becomes of it an OuterStep
/// says. After a synchronization, all ranks hold the same bits. Steps up to `from_step` are those of DataParallel, and
/// the last one of a run is followed by a synchronization, too.
///
/// Where periods are nested (hierarchical local SGD: Lin, Stich, Patel & Jaggi 2020), groups that share a node average
/// every `node_every` steps in between, with the weights of AveragingWeights; x₀ stays that of the last synchronization
/// of all.
///
/// Where steps are by speed (PeriodSteps), a group leaves the last ones before a synchronization of all to the others.
///
/// Statistics of layers are averaged, whatever the outer step. Of elastic averaging, the parameters that a rank shows
/// after a synchronization are the centre; the replica lies beside them until the next step.
///
/// Where parameters are synchronized in fragments (Streaming DiLoCo: Douillard et al. 2025, algorithm 2), those that a
/// rank shows after each `every` steps are x₀: of each fragment what its last synchronization has left. No sum is under
/// way there.
class LocalParallel final : public ParallelStrategy {
 public:
  struct Parts {
    std::unique_ptr<DataParallel> all;    ///< of all ranks, which synchronize by its sums
    std::unique_ptr<DataParallel> group;  ///< of those of a step
    std::unique_ptr<DataParallel> node;   ///< of this node's, which also synchronize by themselves; null: they do not
    std::unique_ptr<FragmentSums> fragments;  ///< null: all parameters are synchronized at once
    std::unique_ptr<AdasumExchange> adasum;   ///< null: by sums
    std::unique_ptr<OwnSteps> own_steps;      ///< that this rank's group counts; null: as the run does
  };
  /// `group`: the ranks of this one's steps. `partition`: of batches among all ranks. `last_step`: of the run.
  /// Collective.
  LocalParallel(const LocalConfig& config, const Topology& topology, const Topology& group, Parts parts,
                const BatchPartition& partition, std::int64_t last_step, ParameterBuffer& parameters);

  void bind(const Updater& updater) override;
  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override {
    step_ = steps;
    optimizer_steps_ = optimizer_steps;
  }
  StepScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) override;
  bool end_step(const ExecSpace& space, double learning_rate) override;
  bool is_local(std::int64_t step) const override { return group_.count() > 1 && step > config_.from_step; }
  bool is_common(std::int64_t step) const override;
  std::int64_t steps_between_syncs() const override { return config_.every; }
  std::int64_t follow_times(std::span<const double> times) override;
  bool ranks_have_same_states() const override { return !states_.are_kept(); }

  void gradient_ready(const ExecSpace& space, ParameterRange range) override;
  void gradient_sum_done(const ExecSpace& space) override { current().gradient_sum_done(space); }
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor gradient_square(const ExecSpace& space) override;
  Tensor nonfinite_gradients(const ExecSpace& space) override { return current().nonfinite_gradients(space); }
  void update(const ExecSpace& space, const StepScalars* step, double statistics_factor) override;
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  double take_exposed_seconds() override;

 private:
  DataParallel& current() { return steps_alone_ ? *parts_.group : *parts_.all; }
  bool syncs_in_node(std::int64_t step) const;
  void sync_at_once(const ExecSpace& space, std::optional<double> weight, double learning_rate);
  void average_in_node(const ExecSpace& space, double weight);
  void show_common(const ExecSpace& space);
  void begin_replica(const ExecSpace& space);

  LocalConfig config_;
  Communicator ranks_, node_;
  StepGroup group_;
  Parts parts_;
  std::int64_t last_step_;
  ParameterBuffer& parameters_;
  ReplicaUpdate sync_;
  AveragingWeights weights_;
  GroupStates states_;
  std::optional<StreamingSync> streamed_;  ///< none: all parameters are synchronized at once
  std::optional<PeriodSteps> period_;      ///< none: all groups do all steps
  Tensor square_;  ///< gradient_square of the last step, whose gradients a synchronization has overwritten
  std::int64_t step_ = 0, examples_ = 0;  ///< the last one that has begun, and the group's of its batch
  std::int64_t optimizer_steps_ = 0;      ///< see go_on_after
  bool steps_alone_ = false, has_others_ = false, has_synced_ = false;
};

}  // namespace lockstep
