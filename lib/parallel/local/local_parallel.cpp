// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/local_parallel.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

void check_local_groups(const LocalConfig& config, std::span<const int> node_of) {
  if (!config.nests()) return;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const std::size_t first = rank - rank % static_cast<std::size_t>(*config.group);
    validate_key(node_of[rank] == node_of[first], "parallel.local.node_every",
                 "rank {} is on a different node from the rest of its group ({} ranks from rank {} on); give a "
                 "group that divides the ranks of each node, or leave node_every out",
                 rank, *config.group, first);
  }
}

Topology local_group_of(const LocalConfig& config, const Topology& topology) {
  const int rank = topology.all.rank();
  check_local_groups(config, topology.node_of);
  const std::int64_t number = config.group ? rank / *config.group : topology.node_of[static_cast<std::size_t>(rank)];
  return topology.of(topology.all.split(static_cast<int>(number)));
}

LocalParallel::LocalParallel(const LocalConfig& config, const Topology& topology, const Topology& group, Parts parts,
                             const BatchPartition& partition, std::int64_t last_step, ParameterBuffer& parameters)
    : config_(config),
      ranks_(topology.all),
      node_(topology.node),
      group_(topology.all, group.all, partition),
      parts_(std::move(parts)),
      last_step_(last_step),
      parameters_(parameters),
      sync_(config, parameters),
      weights_(topology.all, parts_.node ? std::optional(topology.node) : std::nullopt) {
  if (parts_.fragments) streamed_.emplace(config, std::move(parts_.fragments), last_step, parameters, sync_, weights_);
  traits_.steps_between_syncs = config_.every;
  traits_.ranks_have_same_states = group_.count() == 1;
}

void LocalParallel::bind(const Updater& updater) {
  ParallelStrategy::bind(updater);
  for (DataParallel* const sums : {parts_.all.get(), parts_.group.get(), parts_.node.get()})
    if (sums) sums->bind(updater);
}

bool LocalParallel::is_common(std::int64_t step) const {
  return step <= config_.from_step || step == last_step_ || (step - config_.from_step) % config_.every == 0;
}

bool LocalParallel::syncs_in_node(std::int64_t step) const {
  return parts_.node && (step - config_.from_step) % *config_.node_every == 0;
}

UpdateScope LocalParallel::begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) {
  step_ = number;
  has_synced_ = false;
  steps_alone_ = number > config_.from_step;
  if (!steps_alone_) return {.examples = batch.global_examples};
  if (config_.streams() && !has_others_) {
    updater().before_change();
    swap_numbers(space, sync_.values(), sync_.others());
    parameters_.round(space);
  } else if (!has_others_) {
    copy(space, sync_.values(), sync_.others());
  }
  has_others_ = true;
  examples_ = group_.examples(batch.global_examples);
  return {.examples = examples_,
          .group = is_local(number) ? &group_.ranks() : nullptr,
          .numbers = group_.numbers(),
          .syncs = is_common(number),
          .own_steps = parts_.own_steps.get()};
}

void LocalParallel::update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) {
  current().update(space, step, statistics_factor);
  if (parts_.own_steps) parts_.own_steps->add(space, &step->left_out);
  if (steps_alone_) weights_.add(space, static_cast<double>(examples_) / group_.size(), &step->left_out);
}

bool LocalParallel::end_step(const ExecSpace& space) {
  if (parts_.own_steps) parts_.own_steps->look(space);
  if (!steps_alone_) {
    if (config_.streams()) {
      updater().before_change();
      begin_replica(space);
    }
    return false;
  }
  const bool all_sync = is_common(step_);
  if (streamed_) {
    streamed_->end_step(space, step_, updater().before_change);
    if (!all_sync) return false;
    updater().before_change();
    show_common(space);
    parameters_.round(space);
    weights_.forget(space);
    return group_.count() > 1;
  }
  if (!all_sync && !syncs_in_node(step_)) return false;
  // An optimizer that overwrites gradients has taken their square before its update (UpdateCoefficients).
  if (!optimizer().overwrites_gradients()) square_ = current().measure_gradients(space, Measure::square);
  updater().before_change();
  if (const std::optional<double> weight = all_sync ? weights_.take(space) : weights_.take_in_node(space)) {
    if (all_sync) sync_at_once(space, *weight);
    else average_in_node(space, *weight);
  }
  parameters_.round(space);
  has_synced_ = true;
  return all_sync && group_.count() > 1;
}

/// The gradients' memory holds differences meanwhile: it is as long, and ranks sum it.
void LocalParallel::sync_at_once(const ExecSpace& space, double weight) {
  const Tensor differences = sync_.room();
  const ElementRange all{0, differences.count()};
  if (parts_.adasum) {
    sync_.take_differences(space, 1, weight * group_.size(), differences);
    parts_.adasum->combine(space);
  } else {
    sync_.take_differences(space, weight, all, differences);
    parts_.all->finish_gradients(space, [] {});
  }
  sync_.step(space, 1, all, differences);
}

void LocalParallel::average_in_node(const ExecSpace& space, double weight) {
  const Tensor differences = sync_.room();
  sync_.take_differences(space, weight, weight, differences);
  parts_.node->finish_gradients(space, [] {});
  sync_.average(space, differences);
}

/// Exchanges what the last synchronizations have left with what the group has stepped to.
void LocalParallel::show_common(const ExecSpace& space) {
  swap_numbers(space, sync_.values(), sync_.others());
  has_others_ = false;
}

/// Before groups part, the replica of each is what all have in common. So it is in every checkpoint, from which a run
/// may go on with another from_step.
void LocalParallel::begin_replica(const ExecSpace& space) { copy(space, sync_.values(), sync_.others()); }

void LocalParallel::share(const ExecSpace& space) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  if (const Tensor& velocity = sync_.outer().velocity()) ranks_.broadcast(space, velocity);
  if (config_.streams()) {
    if (step_ <= config_.from_step) begin_replica(space);
    else group_.ranks().broadcast(space, sync_.others());
  }
  share_states(space);
  weights_.forget(space);
  has_others_ = false;
}

/// Gives all ranks of a group the states of its first rank. If all ranks do the next step together, they need the same
/// states: if a checkpoint has those of groups, the first group's.
void LocalParallel::share_states(const ExecSpace& space) {
  const Communicator& alike = step_ < config_.from_step ? ranks_ : group_.ranks();
  for (const Optimizer::State& state : optimizer().states()) alike.broadcast(space, state.values);
  if (parts_.own_steps) parts_.own_steps->begin(space, alike, optimizer_steps_);
}

std::vector<ShardedState> LocalParallel::sharded_states() const {
  std::vector<ShardedState> all{replicated_parameters(parameters_, ranks_.is_root())};
  add_optimizer_states(all);
  std::vector<Parameter> moving = parameters_.parameters();
  std::erase_if(moving, [](const Parameter& each) { return each.kind == ParameterSpec::Kind::frozen; });
  const SharedLayout layout(std::move(moving)), trained = trained_parameters(parameters_.parameters());
  for (int group = 0; config_.streams() && group < group_.count(); ++group) {
    const bool holds = group == group_.number() && group_.ranks().is_root();
    all.push_back(state_of_one_rank("", layout, sync_.others(), holds));
    all.back().replica = ShardedState::Replica{group, group_.count()};
  }
  if (const Tensor& velocity = sync_.outer().velocity())
    all.push_back(state_of_strategy(OuterOptimizer::velocity_name, trained, velocity, ranks_.is_root()));
  return all;
}

/// Adds the states of each group's optimizer, with the number of steps behind them if groups count their own.
void LocalParallel::add_optimizer_states(std::vector<ShardedState>& all) const {
  for (int group = 0; group < group_.count(); ++group) {
    const bool holds = group == group_.number() && group_.ranks().is_root();
    std::optional<ShardedState::Replica> replica;  // none: a single group's states are the run's
    if (group_.count() > 1) replica = ShardedState::Replica{group, group_.count()};
    for (const Optimizer::State& state : optimizer().states()) {
      all.push_back(state_of_one_rank(state.name, state.layout, state.values, holds, state.offloaded));
      all.back().replica = replica;
    }
    if (parts_.own_steps) OwnSteps::add_sharded_states(holds ? parts_.own_steps.get() : nullptr, replica, all);
  }
}

void LocalParallel::gradient_ready(const ExecSpace& space, ElementRange range) {
  current().gradient_ready(space, range);
  if (streamed_) streamed_->advance(space);
}

void LocalParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  current().finish_gradients(space, [&] {
    meanwhile();
    if (streamed_) streamed_->advance(space);
  });
}

double LocalParallel::take_exposed_seconds() {
  return parts_.all->take_exposed_seconds() + parts_.group->take_exposed_seconds() +
         (parts_.node ? parts_.node->take_exposed_seconds() : 0) + (streamed_ ? streamed_->take_exposed_seconds() : 0) +
         (parts_.adasum ? parts_.adasum->take_exposed_seconds() : 0);
}

}  // namespace lockstep
