// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/group_states.hpp"

#include <algorithm>
#include <utility>

#include "ops/elementwise.hpp"
#include "parallel/local/outer_optimizer.hpp"

namespace lockstep {

GroupStates::GroupStates(const LocalConfig& config, const Communicator& all, const StepGroup& group,
                         std::unique_ptr<OwnSteps> own_steps, ParameterBuffer& parameters)
    : state_(config.state), all_(all), group_(group), own_steps_(std::move(own_steps)), parameters_(parameters) {}

void GroupStates::sync(const ExecSpace& space, const Optimizer& optimizer, const Communicator& sync, DataParallel& sums,
                       std::optional<double> weight) {
  if (weight && state_ == LocalConfig::State::average && group_.count() > 1) {
    average(space, optimizer, sums, *weight);
    if (own_steps_) own_steps_->average(space, sync, *weight);
  }
  if (state_ != LocalConfig::State::reset) return;
  for (const Optimizer::State& state : optimizer.states()) fill_zero(space, state.values);
  if (own_steps_) own_steps_->forget(space);
}

void GroupStates::average(const ExecSpace& space, const Optimizer& optimizer, DataParallel& sums, double weight) const {
  const Tensor room = parameters_.gradients();
  for (const Optimizer::State& state : optimizer.states())
    for (std::int64_t first = 0; first < state.values.count(); first += parameters_.trained_size()) {
      const std::int64_t count = std::min(parameters_.trained_size(), state.values.count() - first);
      const Tensor numbers = flat_part(state.values, {first, count}), averages = flat_part(room, {0, count});
      fill_zero(space, room);
      accumulate(space, weight, numbers, averages);
      sums.finish_gradients(space, [] {});
      copy(space, averages, numbers);
    }
}

void GroupStates::share(const ExecSpace& space, const Optimizer& optimizer, std::int64_t optimizer_steps,
                        bool together) {
  const Communicator& alike = are_kept() && !together ? group_.ranks() : all_;
  for (const Optimizer::State& state : optimizer.states()) alike.broadcast(space, state.values);
  if (own_steps_) own_steps_->begin(space, alike, optimizer_steps);
}

void GroupStates::add_sharded_states(const Optimizer& optimizer, std::vector<ShardedState>& all) const {
  const auto add = [&](bool holds, std::optional<ShardedState::Replica> replica) {
    for (const Optimizer::State& state : optimizer.states()) {
      all.push_back(state_of_one_rank(state.name, state.layout, state.values, holds, state.offloaded));
      all.back().replica = replica;
    }
    if (own_steps_) OwnSteps::add_sharded_states(holds ? own_steps_.get() : nullptr, replica, all);
  };
  if (!are_kept()) return add(all_.is_root(), std::nullopt);
  for (int group = 0; group < group_.count(); ++group)
    add(group == group_.number() && group_.ranks().is_root(), ShardedState::Replica{group, group_.count()});
}

}  // namespace lockstep
