// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/data_parallel.hpp"
#include "parallel/local/adasum_exchange.hpp"
#include "parallel/local/local_group.hpp"
#include "parallel/local/replica_update.hpp"
#include "parallel/local/streaming_sync.hpp"
#include "parallel/own_steps.hpp"

namespace lockstep {

/// Throws KeyError (parallel.local.node_every) if groups of a node are to synchronize and a group has ranks on several
/// nodes. `node_of`: the node of each rank.
void check_local_groups(const LocalConfig& config, std::span<const int> node_of);
/// Returns the ranks that step together with this one (parallel.local.group). Throws what check_local_groups does, on
/// all ranks. Collective.
Topology local_group_of(const LocalConfig& config, const Topology& topology);

/// Whole replicas, one for each group of ranks, which step by themselves (local SGD: Stich 2019; post-local SGD: Lin et
/// al. 2020). Every `every` steps the groups synchronize: with n_g the examples that group g has stepped on since the
/// last synchronization, and x_g its parameters, their average is x̄ = Σ n_g x_g / Σ n_g, which an OuterStep turns into
/// the new parameters. After a synchronization, all ranks hold the same bits. Steps up to `from_step` are those of
/// DataParallel. The last step of a run is also followed by a synchronization.
///
/// With nested periods (hierarchical local SGD: Lin, Stich, Patel & Jaggi 2020), groups that share a node also average
/// every `node_every` steps in between, with the weights of AveragingWeights; x₀ stays that of the last synchronization
/// of all.
///
/// Statistics of layers are averaged, whatever the outer step. Each group keeps its own optimizer states.
///
/// With fragments (Streaming DiLoCo: Douillard et al. 2025, algorithm 2), the parameters that a rank shows after each
/// `every` steps are x₀: for each fragment, what its last synchronization has left. No sum is under way there.
class LocalParallel final : public ParallelStrategy {
 public:
  struct Parts {
    std::unique_ptr<DataParallel> all;    ///< of all ranks, for synchronizations
    std::unique_ptr<DataParallel> group;  ///< of the ranks of a step
    std::unique_ptr<DataParallel> node;   ///< of this node's ranks, if they also synchronize by themselves; else null
    std::unique_ptr<FragmentSums> fragments;  ///< null: all parameters are synchronized at once
    std::unique_ptr<AdasumExchange> adasum;   ///< null: synchronizations are sums
    std::unique_ptr<OwnSteps> own_steps;      ///< counts the steps of this rank's group; null: they are the run's
  };
  /// `group` are the ranks of this rank's steps. `partition` divides batches among all ranks. `last_step` is that of
  /// the run. Collective.
  LocalParallel(const LocalConfig& config, const Topology& topology, const Topology& group, Parts parts,
                const BatchPartition& partition, std::int64_t last_step, ParameterBuffer& parameters);

  void bind(const Updater& updater) override;
  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override {
    step_ = steps;
    optimizer_steps_ = optimizer_steps;
  }
  UpdateScope begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) override;
  bool end_step(const ExecSpace& space) override;
  Sync sync_of(std::int64_t step) const override { return {is_local(step), is_common(step)}; }

  void gradient_ready(const ExecSpace& space, ElementRange range) override;
  void gradient_sum_done(const ExecSpace& space) override { current().gradient_sum_done(space); }
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor measure_gradients(const ExecSpace& space, Measure what) override {
    return has_synced_ && what == Measure::square ? square_ : current().measure_gradients(space, what);
  }
  void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) override;
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  double take_exposed_seconds() override;

 private:
  DataParallel& current() { return steps_alone_ ? *parts_.group : *parts_.all; }
  bool is_local(std::int64_t step) const { return group_.count() > 1 && step > config_.from_step; }
  bool is_common(std::int64_t step) const;
  bool syncs_in_node(std::int64_t step) const;
  void sync_at_once(const ExecSpace& space, double weight);
  void average_in_node(const ExecSpace& space, double weight);
  void show_common(const ExecSpace& space);
  void begin_replica(const ExecSpace& space);
  void share_states(const ExecSpace& space);
  void add_optimizer_states(std::vector<ShardedState>& all) const;

  LocalConfig config_;
  Communicator ranks_, node_;
  LocalGroup group_;
  Parts parts_;
  std::int64_t last_step_;
  ParameterBuffer& parameters_;
  ReplicaUpdate sync_;
  AveragingWeights weights_;
  std::optional<StreamingSync> streamed_;  ///< none: all parameters are synchronized at once
  Tensor square_;  ///< square of the gradients of the last step, if a synchronization has overwritten its gradients
  std::int64_t step_ = 0, examples_ = 0;  ///< number of the last begun step; examples of its batch in the group
  std::int64_t optimizer_steps_ = 0;      ///< see go_on_after
  bool steps_alone_ = false, has_others_ = false, has_synced_ = false;
};

}  // namespace lockstep
