// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/collective/all_reduce_table.hpp"
#include "config/deck.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/groups/adasum_exchange.hpp"
#include "parallel/groups/local_group.hpp"
#include "parallel/groups/replica_update.hpp"
#include "parallel/groups/streaming_sync.hpp"
#include "parallel/optimizer_step_count.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// Throws KeyError (parallel.local.group) if ranks divide parameters, and groups are not alike.
void require_alike_groups(const ParallelConfig& config, bool alike);

/// What travels between groups of ranks that train by themselves (local SGD: Stich 2019; post-local SGD: Lin et al.
/// 2020). Every `every` steps the groups synchronize: with n_g the examples that group g has trained on since the last
/// synchronization, and x_g its parameters, their average is x̄ = Σ n_g x_g / Σ n_g, which an OuterStep turns into the
/// new parameters. After a synchronization, all ranks hold the same bits. Steps up to `from_step` are those of all
/// ranks together. The last step of a run is also followed by a synchronization.
///
/// With nested periods (hierarchical local SGD: Lin, Stich, Patel & Jaggi 2020), groups that share a node also average
/// every `node_every` steps in between, with the weights of AveragingWeights; x₀ stays that of the last synchronization
/// of all.
///
/// Statistics of layers are averaged, whatever the outer step. Each group keeps its own optimizer states.
///
/// With fragments (Streaming DiLoCo: Douillard et al. 2025, algorithm 2), the parameters that a rank shows after each
/// `every` steps are x₀: for each fragment, what its last synchronization has left. No sum is under way there.
///
/// The ranks of a group may divide its parameters (parallel.shard). Then each sums what it owns with the ranks that own
/// the same in other groups. Otherwise the first ranks of groups sum, and pass the sums on within their groups.
class GroupExchange {
 public:
  /// What is exchanged; everything must outlive the exchange.
  struct Replica {
    ParameterBuffer& parameters;
    const Optimizer& optimizer;
    /// Ranks of the group that own what this one does, if ranks divide the parameters; else null.
    const Communicator* same_part = nullptr;
    std::function<void()> finish_update;  ///< waits until all ranks of the group have the parameters of the last step
    ParameterChange change;               ///< how parameters are changed between steps
  };
  struct Options {
    const ParallelConfig& config;
    const DeckNode& source;                  ///< the deck; error messages name its lines
    std::span<const AllReduceRow> measured;  ///< see make_all_reduce; for all ranks
    std::int64_t last_step = 0;              ///< of the run
    bool counts_steps = false;               ///< checkpoints hold the steps behind each group's optimizer states
  };
  /// Throws KeyError if the groups, or the network, do not suit what the deck asks for. Collective over all ranks.
  GroupExchange(const Options& options, const LocalGroup& group, Replica replica);

  const LocalGroup& group() const { return group_; }
  /// Whether groups train by themselves in step number `step`; otherwise all ranks do that step together.
  bool is_apart(std::int64_t step) const { return step > config_.from_step; }
  /// Whether all ranks hold the parameters of the run after step number `step`.
  bool is_common(std::int64_t step) const;
  /// Whether groups, those of a node at least, synchronize after step number `step`.
  bool syncs(std::int64_t step) const { return is_apart(step) && (is_common(step) || syncs_in_node(step)); }

  /// Call before each step that groups do by themselves.
  void begin_step(const ExecSpace& space);
  /// Goes on with what travels during steps, as far as possible without waiting.
  void advance(const ExecSpace& space) {
    if (streamed_) streamed_->advance(space);
  }
  /// Call after step number `step`, which the group has done on so many examples, or left out if `left_out`, in device
  /// memory, is not 0. Synchronizes groups if that is due; the gradients' memory is then overwritten. Collective.
  void end_step(const ExecSpace& space, std::int64_t step, std::int64_t examples, const std::int32_t* left_out);
  /// Call after a step that all ranks have done together.
  void follow(const ExecSpace& space);

  /// Notes the number of steps that the group's optimizer states result from, for checkpoints.
  void note_optimizer_steps(const ExecSpace& space, std::int64_t steps);
  /// Returns the number that a checkpoint holds; none if it does not. After `steps` steps of the run. Collective.
  std::optional<std::int64_t> optimizer_steps(const ExecSpace& space, std::int64_t steps);

  /// Returns what this rank gives to checkpoints. `of_group`: the same for its group.
  std::vector<ShardedState> sharded_states(const std::vector<ShardedState>& of_group) const;
  /// Gives all groups the parameters of the first group. The ranks of a group share them afterwards. Collective.
  void share_parameters(const ExecSpace& space) const;
  /// Begins anew after `steps` steps of the run, when all ranks have their parameters and states. Collective.
  void begin(const ExecSpace& space, std::int64_t steps);

  /// Seconds that steps have waited for other groups since the last call.
  double take_exposed_seconds();

 private:
  bool syncs_in_node(std::int64_t step) const {
    return in_node_ && (step - config_.from_step) % *config_.node_every == 0;
  }
  std::unique_ptr<GradientReducer> make_sum(const Options& options, const std::optional<Topology>& ranks,
                                            std::span<const AllReduceRow> measured);
  void finish(const ExecSpace& space, GradientReducer* sum);
  void sync_at_once(const ExecSpace& space, double weight);
  void average_in_node(const ExecSpace& space, double weight);
  void add_optimizer_states(const std::vector<ShardedState>& of_group, std::vector<ShardedState>& all) const;

  LocalConfig config_;
  LocalGroup group_;
  Replica replica_;
  bool in_node_;                     ///< the groups of this node also synchronize by themselves
  Communicator holders_;             ///< ranks of this group that hold the parameters that this rank holds
  Communicator first_holders_;       ///< on the first rank of holders_: the ranks in its place, one of each group; on
                                     ///< others: unused
  std::optional<Topology> between_;  ///< first_holders_ with their nodes; none on ranks that are not first
  int first_group_ = 0;              ///< rank of group 0 in first_holders_
  std::int64_t last_step_;
  ReplicaUpdate update_;
  AveragingWeights weights_;
  /// Sums of ReplicaUpdate::delta_buffer over all groups, and over those of this node; null on ranks that get the sums
  /// from the first one that holds the same.
  std::unique_ptr<GradientReducer> sum_, sum_in_node_;
  std::unique_ptr<AdasumExchange> adasum_;             ///< null: synchronizations are sums
  std::optional<StreamingSync> streamed_;              ///< none: all parameters are synchronized at once
  std::optional<OptimizerStepCount> optimizer_steps_;  ///< none: not counted
  bool has_synced_copy_ = false;                       ///< the parameters that all groups have in common are kept
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
