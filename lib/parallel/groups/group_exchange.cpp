// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/group_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/duration.hpp"
#include "parallel/make_strategy.hpp"
#include "parallel/reducers/bucketed_reducer.hpp"
#include "parallel/reducers/device_reducer.hpp"

namespace lockstep {
namespace {

/// Returns the ranks of all groups in the place of this rank, if it is the first of the ranks that hold what it does;
/// else all ranks that are not. Collective over all ranks.
Communicator ranks_of_place(const LocalGroup& group, const Communicator& holders) {
  return group.all.all.split(holders.is_root() ? group.ranks.all.rank() : group.all.all.size());
}

int rank_of_first_group(const LocalGroup& group, const Communicator& place) {
  const std::vector<std::int64_t> numbers = place.all_gather(group.number);
  return static_cast<int>(std::ranges::find(numbers, 0) - numbers.begin());
}

/// Throws KeyError, on all ranks, if groups whose ranks divide parameters are not alike. Collective over all ranks.
void check_division(const ParallelConfig& config, const LocalGroup& group, const ParameterBuffer& parameters,
                    const std::optional<Topology>& between) {
  bool alike = group.are_equal;
  if (between && alike) {
    const std::vector<ElementRange>& owned = parameters.layout().owned();
    const ParameterDivision& division = parameters.windows().division;
    const std::int64_t first = owned.empty() ? 0 : owned.front().first;
    for (const std::int64_t number :
         {parameters.layout().owned_count(), first, std::int64_t{division.values}, std::int64_t{division.gradients}})
      alike &= between->all.all_reduce_max(number) == between->all.all_reduce_min(number);
  }
  require_alike_groups(config, group.all.all.every_rank(alike));
}

void give_nothing(ShardedState& numbers) {
  numbers.held.clear();
  numbers.values.shape = {0};
  numbers.offloaded = {};
}

}  // namespace

void require_alike_groups(const ParallelConfig& config, bool alike) {
  validate_key(
      alike || !config.sharding.divides(), "parallel.local.group",
      "groups have different numbers of ranks, or lie on nodes differently, so their ranks own different parts "
      "of the parameters (parallel.shard); start equally many ranks on each node, or leave shard out");
}

GroupExchange::GroupExchange(const Options& options, const LocalGroup& group, Replica replica)
    : config_(options.config.local),
      group_(group),
      replica_(std::move(replica)),
      in_node_(config_.nests() && group_.all.node.size() > group_.ranks.all.size()),
      holders_(replica_.same_part ? *replica_.same_part : group_.ranks.all),
      first_holders_(ranks_of_place(group_, holders_)),
      last_step_(options.last_step),
      update_(config_, replica_.parameters),
      weights_(group_.all.all, in_node_ ? std::optional(group_.all.node) : std::nullopt) {
  if (holders_.is_root()) {
    between_ = group_.all.of(first_holders_);
    first_group_ = rank_of_first_group(group_, first_holders_);
  }
  const ParameterLayout& layout = replica_.parameters.layout();
  if (options.counts_steps) optimizer_steps_.emplace();
  group_.all.all.run_collectively([&] {
    with_positions(options.source, [&] {
      if (options.config.sharding.divides()) check_division(options.config, group_, replica_.parameters, between_);
    });
  });
  if (config_.streams()) {
    streamed_.emplace(
        config_,
        std::make_unique<FragmentSums>(options.config, between_ ? &*between_ : nullptr, group_.ranks.all, layout),
        last_step_, update_, weights_);
    return;
  }
  if (config_.outer == LocalConfig::Outer::adasum) {
    adasum_ = std::make_unique<AdasumExchange>(group_.all.all, group_.ranks.all, layout, update_.delta_buffer());
    return;
  }
  group_.all.all.run_in_parts(first_holders_, [&] {
    sum_ = make_sum(options, between_,
                    group_.count == group_.all.all.size() ? options.measured : std::span<const AllReduceRow>());
  });
  if (!in_node_) return;
  std::optional<Topology> in_node;
  if (between_) in_node = between_->of(between_->node);
  sum_in_node_ = make_sum(options, in_node, {});
}

std::unique_ptr<GradientReducer> GroupExchange::make_sum(const Options& options, const std::optional<Topology>& ranks,
                                                         std::span<const AllReduceRow> measured) {
  if (!ranks) return nullptr;
  ParallelConfig config = options.config;
  config.sharding = {};  // ranks that own the same sum all of it
  const Tensor numbers = update_.delta_buffer();
  const ParameterLayout& layout = replica_.parameters.layout();
  const GradientBuckets buckets = layout.is_divided() ? GradientBuckets({update_.trained()}, update_.all().count,
                                                                        config.sums.bucket_mb, size_of(numbers.dtype))
                                                      : GradientBuckets(layout, config);
  if (std::unique_ptr<DeviceAllReduce> on_devices = sums_on_devices(config, options.source, ranks->all))
    return std::make_unique<DeviceReducer>(config, std::move(on_devices), numbers, buckets);
  return std::make_unique<BucketedReducer>(config, measured, ShardGroups(config, *ranks), std::nullopt, numbers,
                                           buckets);
}

void GroupExchange::finish(const ExecSpace& space, GradientReducer* sum) {
  const Timer timer;
  if (sum) sum->finish(space, [] {});
  if (holders_.size() > 1) holders_.broadcast(space, update_.delta_buffer());
  exposed_seconds_ += timer.seconds();
}

bool GroupExchange::is_common(std::int64_t step) const {
  return !is_apart(step) || step == last_step_ || (step - config_.from_step) % config_.every == 0;
}

void GroupExchange::begin_step(const ExecSpace& space) {
  if (std::exchange(has_synced_copy_, true)) return;
  replica_.finish_update();
  if (streamed_) replica_.change([&] { update_.swap(space); });
  else update_.save_synced(space);
}

void GroupExchange::end_step(const ExecSpace& space, std::int64_t step, std::int64_t examples,
                             const std::int32_t* left_out) {
  // Of streamed sums, only the first ranks of groups take part.
  const int counting = streamed_ ? 1 : group_.ranks.all.size();
  weights_.add(space, static_cast<double>(examples) / counting, left_out);
  const bool all_sync = is_common(step);
  if (streamed_) {
    streamed_->end_step(space, step, replica_.change);
    if (!all_sync) return;
    replica_.change([&] { update_.swap(space); });  // shows what the last synchronizations have left
    has_synced_copy_ = false;
    weights_.forget(space);
    return;
  }
  if (!syncs(step)) return;
  const std::optional<double> weight = all_sync ? weights_.take(space) : weights_.take_in_node(space);
  if (!weight) return;
  replica_.finish_update();
  if (all_sync) sync_at_once(space, *weight * group_.ranks.all.size());
  else average_in_node(space, *weight * group_.ranks.all.size());
}

/// `weight` is that of the group. Ranks take differences before any of them changes parameters that several share.
void GroupExchange::sync_at_once(const ExecSpace& space, double weight) {
  const Tensor differences = update_.delta_buffer();
  if (adasum_) {
    const auto take = [&](double factor, ElementRange range) {
      if (range.count > 0) update_.take_differences(space, factor, range, flat_part(differences, range));
    };
    take(1, update_.trained());
    take(weight, update_.statistics());
    adasum_->combine(space);
  } else {
    update_.take_differences(space, weight, update_.all(), differences);
    finish(space, sum_.get());
  }
  replica_.change([&] { update_.step(space, 1, update_.all(), differences); });
}

void GroupExchange::average_in_node(const ExecSpace& space, double weight) {
  const Tensor differences = update_.delta_buffer();
  update_.take_differences(space, weight, update_.all(), differences);
  finish(space, sum_in_node_.get());
  replica_.change([&] { update_.average(space, differences); });
}

/// Until `from_step` all ranks hold equal parameters. Each step copies them to x₀, so that every checkpoint has an x₀
/// that is right for any `from_step` of the run that goes on.
void GroupExchange::follow(const ExecSpace& space) {
  if (streamed_) replica_.change([&] { update_.save_synced(space); });
}

void GroupExchange::note_optimizer_steps(const ExecSpace& space, std::int64_t steps) {
  if (optimizer_steps_) optimizer_steps_->note(space, steps);
}

/// If all ranks do the next step together, they need the same states: those of the first group.
std::optional<std::int64_t> GroupExchange::optimizer_steps(const ExecSpace& space, std::int64_t steps) {
  if (!optimizer_steps_) return std::nullopt;
  return optimizer_steps_->restored(space, steps < config_.from_step ? group_.all.all : group_.ranks.all);
}

void GroupExchange::share_parameters(const ExecSpace& space) const {
  if (!between_) return;
  const ParameterBuffer& parameters = replica_.parameters;
  const Communicator& groups = between_->all;
  const bool is_first = group_.ranks.all.is_root();
  if (!parameters.windows().division.values) {
    if (is_first) groups.broadcast(space, parameters.values(), first_group_);
    return;
  }
  groups.broadcast(space, parameters.owned().values(), first_group_);
  if (const ElementRange others = parameters.layout().others(); is_first && others.count > 0)
    groups.broadcast(space, parameters.values(others), first_group_);
}

void GroupExchange::begin(const ExecSpace& space, std::int64_t steps) {
  if (const Tensor& velocity = update_.outer().velocity()) {
    if (between_) between_->all.broadcast(space, velocity, first_group_);
    if (holders_.size() > 1) holders_.broadcast(space, velocity);
  }
  if (streamed_) {
    if (steps <= config_.from_step) update_.save_synced(space);
    else group_.ranks.all.broadcast(space, update_.synced());
  }
  weights_.forget(space);
  has_synced_copy_ = false;
}

std::vector<ShardedState> GroupExchange::sharded_states(const std::vector<ShardedState>& of_group) const {
  std::vector<ShardedState> all;
  for (const ShardedState& parameters : of_group) {
    if (!parameters.state.empty()) continue;
    all.push_back(parameters);
    if (group_.number > 0) give_nothing(all.back());
  }
  add_optimizer_states(of_group, all);
  const std::vector<Parameter>& parameters = replica_.parameters.parameters();
  std::vector<Parameter> moving = parameters;
  std::erase_if(moving, [](const Parameter& each) { return each.kind == ParameterSpec::Kind::frozen; });
  const SharedLayout layout(std::move(moving)), trained = trained_parameters(parameters);
  for (int group = 0; streamed_ && group < group_.count; ++group) {
    all.push_back(
        state_of_one_rank("", layout, update_.synced(), group == group_.number && group_.ranks.all.is_root()));
    all.back().replica = ShardedState::Replica{group, group_.count};
  }
  if (const Tensor& velocity = update_.outer().velocity())
    all.push_back(state_of_strategy(OuterOptimizer::velocity_name, trained, replica_.parameters.layout().owned(),
                                    velocity, group_.number == 0 && holders_.is_root()));
  return all;
}

/// Adds the states of each group's optimizer, with the number of steps behind them if groups count their own.
void GroupExchange::add_optimizer_states(const std::vector<ShardedState>& of_group,
                                         std::vector<ShardedState>& all) const {
  for (int group = 0; group < group_.count; ++group) {
    std::optional<ShardedState::Replica> replica;  // none: a single group's states are the run's
    if (group_.count > 1) replica = ShardedState::Replica{group, group_.count};
    for (const ShardedState& state : of_group) {
      if (state.state.empty()) continue;
      all.push_back(state);
      all.back().replica = replica;
      if (group != group_.number) give_nothing(all.back());
    }
    if (optimizer_steps_) optimizer_steps_->add_to(all, group == group_.number && group_.ranks.all.is_root(), replica);
  }
}

double GroupExchange::take_exposed_seconds() {
  return std::exchange(exposed_seconds_, 0.0) + (streamed_ ? streamed_->take_exposed_seconds() : 0) +
         (adasum_ ? adasum_->take_exposed_seconds() : 0);
}

}  // namespace lockstep
