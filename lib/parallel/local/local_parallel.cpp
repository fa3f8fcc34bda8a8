// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/local_parallel.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"
#include "ops/elementwise.hpp"

namespace lockstep {

Topology ranks_of_step(const LocalConfig& config, const Topology& topology) {
  const int rank = topology.all.rank();
  if (config.nests())
    for (std::size_t other = 0; other < topology.node_of.size(); ++other) {
      const std::size_t first = other - other % static_cast<std::size_t>(*config.group);
      validate_key(topology.node_of[other] == topology.node_of[first], "parallel.local.node_every",
                   "rank {} is on another node than the rest of its group, {} ranks from rank {} on; take a group that "
                   "divides the ranks of each node, or leave node_every out",
                   other, *config.group, first);
    }
  const std::int64_t number = config.group ? rank / *config.group : topology.node_of[static_cast<std::size_t>(rank)];
  return topology.of(topology.all.split(static_cast<int>(number)));
}

LocalParallel::Place LocalParallel::place_of_group(const Communicator& ranks, std::int64_t first_rank) {
  std::vector<std::int64_t> groups = ranks.all_gather(first_rank);
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return {static_cast<int>(std::ranges::lower_bound(groups, first_rank) - groups.begin()),
          static_cast<int>(groups.size())};
}

LocalParallel::LocalParallel(const LocalConfig& config, const Topology& topology, const Topology& group, Parts parts,
                             const BatchPartition& partition, std::int64_t last_step, ParameterBuffer& parameters)
    : config_(config),
      ranks_(topology.all),
      node_(topology.node),
      group_(group.all),
      group_ranks_(group.all.all_gather(topology.all.rank())),
      place_(place_of_group(topology.all, group_ranks_.front())),
      parts_(std::move(parts)),
      partition_(partition),
      last_step_(last_step),
      parameters_(parameters),
      meeting_(config, place_.groups, parameters),
      weights_(topology.all, parts_.node ? std::optional(topology.node) : std::nullopt) {
  if (config_.steps_by_speed) period_.emplace(ranks_, place_.number, config_.every);
}

bool LocalParallel::is_common(std::int64_t step) const {
  return step <= config_.from_step || step == last_step_ || (step - config_.from_step) % config_.every == 0;
}

bool LocalParallel::meets_in_node(std::int64_t step) const {
  return parts_.node && (step - config_.from_step) % *config_.node_every == 0;
}

std::int64_t LocalParallel::examples_of_group(std::int64_t examples) {
  if (std::exchange(examples_, examples) == examples) return examples_of_group_;
  examples_of_group_ = 0;
  for (const std::int64_t rank : group_ranks_)
    examples_of_group_ += share_of(partition_, examples, static_cast<int>(rank)).count;
  return examples_of_group_;
}

StepRanks LocalParallel::begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch,
                                    const std::function<void()>& before_change) {
  step_ = number;
  has_met_ = false;
  steps_alone_ = number > config_.from_step;
  if (!steps_alone_) return {.examples = batch.global_examples};
  const bool begins = number == config_.from_step + 1;  // from what all have in common
  if (config_.keeps_replicas() && !has_others_ && !begins) {
    before_change();
    swap_numbers(space, meeting_.values(), meeting_.others());
    parameters_.round(space);
  } else if (!has_others_) {
    copy(space, meeting_.values(), meeting_.others());
  }
  has_others_ = true;
  StepRanks ranks{.examples = examples_of_group(batch.global_examples),
                  .group = is_local(number) ? &group_ : nullptr,
                  .numbers = group_ranks_,
                  .meets = is_common(number),
                  .own_steps = parts_.own_steps.get()};
  if (period_) {
    const std::int64_t of_period = (number - config_.from_step - 1) % config_.every + 1;
    const std::int64_t computed = period_->examples(partition_, batch.global_examples, of_period);
    if (computed == 0) return ranks;  // a last batch that slow groups alone have anything of
    if (!period_->does(place_.number, of_period)) ranks.examples = 0;
    ranks.examples_of_all = computed;
  }
  return ranks;
}

std::int64_t LocalParallel::follow_times(std::span<const double> times) {
  if (!period_) return config_.every;
  period_->follow(times);
  return period_->fewest();
}

Tensor LocalParallel::gradient_square(const ExecSpace& space) {
  return has_met_ ? square_ : current().gradient_square(space);
}

void LocalParallel::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step,
                           double statistics_factor) {
  current().update(space, optimizer, step, statistics_factor);
  if (parts_.own_steps) parts_.own_steps->add(space, &step->left_out);
  if (steps_alone_) weights_.add(space, static_cast<double>(examples_of_group_) / group_.size(), &step->left_out);
}

bool LocalParallel::end_step(const ExecSpace& space, Optimizer& optimizer, double learning_rate,
                             const std::function<void()>& before_change) {
  if (parts_.own_steps) parts_.own_steps->look(space);
  if (!steps_alone_) return false;
  if (parts_.fragments) return end_streamed_step(space, learning_rate, before_change);
  const bool all_meet = is_common(step_);
  if (!all_meet && !meets_in_node(step_)) return false;
  square_ = current().gradient_square(space);
  before_change();
  const std::optional<double> weight = all_meet ? weights_.take(space, learning_rate) : weights_.take_in_node(space);
  if (all_meet) meet_at_once(space, weight, learning_rate);
  else if (weight) average_in_node(space, *weight);
  parameters_.round(space);
  if (weight && config_.state == LocalConfig::State::average && place_.groups > 1)
    average_states(space, optimizer, *weight, all_meet);
  if (config_.state == LocalConfig::State::reset) forget_states(space, optimizer);
  has_met_ = true;
  return all_meet && place_.groups > 1;
}

/// The gradients' memory holds differences meanwhile: it is as long, and ranks sum it.
void LocalParallel::meet_at_once(const ExecSpace& space, std::optional<double> weight, double learning_rate) {
  const Tensor differences = meeting_.room();
  if (config_.outer == LocalConfig::Outer::elastic) {
    meeting_.take_pulls(space, weight.value_or(0), group_.size(), differences);
    parts_.all->finish_gradients(space, [] {});
    meeting_.pull(space, differences);
    show_common(space);
  } else if (weight) {
    const ParameterRange all{0, differences.count()};
    if (parts_.adasum) {
      meeting_.take_differences(space, 1, *weight * group_.size(), differences);
      parts_.adasum->combine(space);
    } else {
      meeting_.take_differences(space, *weight, all, differences);
      parts_.all->finish_gradients(space, [] {});
    }
    meeting_.step(space, 1, learning_rate, 0, all, differences);
  }
}

void LocalParallel::average_in_node(const ExecSpace& space, double weight) {
  const Tensor differences = meeting_.room();
  meeting_.take_differences(space, weight, weight, differences);
  parts_.node->finish_gradients(space, [] {});
  meeting_.average(space, differences);
}

/// What the last meetings have left changes places with what the group has stepped to.
void LocalParallel::show_common(const ExecSpace& space) {
  swap_numbers(space, meeting_.values(), meeting_.others());
  has_others_ = false;
}

/// A stretch's sum begins `delay` steps before it is applied. Behind the run's last step all stretches meet, so no sum
/// begins that would be applied there.
bool LocalParallel::end_streamed_step(const ExecSpace& space, double learning_rate,
                                      const std::function<void()>& before_change) {
  FragmentSums& sums = *parts_.fragments;
  const std::int64_t period = config_.fragment_period(), steps = step_ - config_.from_step;
  const std::size_t count = sums.fragments().size();
  if (step_ == last_step_) {
    before_change();
    for (std::size_t fragment = 0; fragment < count; ++fragment) {
      begin_fragment(space, fragment, learning_rate);
      finish_fragment(space, 0);
    }
    copy(space, meeting_.others(), meeting_.values());  // of fragments, too, of which nobody has an example to weigh
  } else {
    if ((steps + config_.delay) % period == 0 && step_ + config_.delay < last_step_)
      begin_fragment(space, static_cast<std::size_t>((steps + config_.delay) / period - 1) % count, learning_rate);
    if (steps % period == 0 && sums.under_way()) {
      before_change();
      finish_fragment(space, config_.mix);
    }
  }
  if (!is_common(step_)) return false;
  before_change();
  show_common(space);
  parameters_.round(space);
  weights_.forget(space);
  return place_.groups > 1;
}

/// Examples travel with the sum, so that nobody waits for their number here.
void LocalParallel::begin_fragment(const ExecSpace& space, std::size_t fragment, double learning_rate) {
  const double examples = weights_.examples(space);
  FragmentSums& sums = *parts_.fragments;
  meeting_.take_differences(space, examples, sums.fragments()[fragment], sums.numbers(fragment));
  sums.begin(space, fragment, {examples, ranks_.is_root() ? learning_rate : 0});
}

void LocalParallel::finish_fragment(const ExecSpace& space, double mix) {
  FragmentSums& sums = *parts_.fragments;
  const auto [fragment, beside] = sums.finish(space);
  const auto [examples, learning_rate] = beside;
  if (examples == 0) return;
  meeting_.step(space, 1 / examples, learning_rate, mix, sums.fragments()[fragment], sums.numbers(fragment));
  parameters_.round(space);
}

void LocalParallel::average_states(const ExecSpace& space, const Optimizer& optimizer, double weight, bool all_meet) {
  DataParallel& sums = all_meet ? *parts_.all : *parts_.node;
  if (parts_.own_steps) parts_.own_steps->average(space, all_meet ? ranks_ : node_, weight);
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

void LocalParallel::forget_states(const ExecSpace& space, const Optimizer& optimizer) {
  for (const Optimizer::State& state : optimizer.states()) fill_zero(space, state.values);
  if (parts_.own_steps) parts_.own_steps->forget(space);
}

void LocalParallel::share(const ExecSpace& space, Optimizer& optimizer) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  for (const OuterOptimizer::State& state : meeting_.outer().states()) ranks_.broadcast(space, state.values);
  if (config_.keeps_replicas()) group_.broadcast(space, meeting_.others());
  const Communicator& alike = keeps_states() ? group_ : ranks_;
  for (const Optimizer::State& state : optimizer.states()) alike.broadcast(space, state.values);
  if (parts_.own_steps) parts_.own_steps->begin(space, alike, optimizer_steps_);
  weights_.forget(space);
  has_others_ = false;
}

std::vector<HeldNumbers> LocalParallel::held_numbers(const Optimizer& optimizer) const {
  std::vector<HeldNumbers> all = whole_numbers(parameters_, optimizer, ranks_.is_root());
  if (keeps_states()) all.erase(all.begin() + 1, all.end());
  const auto add_own_steps = [&](bool holds, std::optional<HeldNumbers::Replica> replica) {
    if (parts_.own_steps) OwnSteps::add_held_numbers(holds ? parts_.own_steps.get() : nullptr, replica, all);
  };
  if (!keeps_states()) add_own_steps(ranks_.is_root(), std::nullopt);
  for (int group = 0; group < place_.groups; ++group) {
    const bool holds = group == place_.number && group_.is_root();
    const HeldNumbers::Replica replica{group, place_.groups};
    const auto add = [&](const std::string& state, const std::vector<Parameter>& layout, const Tensor& values) {
      all.push_back(numbers_of_one(state, layout, values, holds));
      all.back().replica = replica;
    };
    if (keeps_states()) {
      for (const Optimizer::State& state : optimizer.states()) add(state.name, state.layout, state.values);
      add_own_steps(holds, replica);
    }
    if (!config_.keeps_replicas()) continue;
    std::vector<Parameter> layout = parameters_.parameters();
    std::erase_if(layout, [](const Parameter& each) { return each.kind == ParameterSpec::Kind::frozen; });
    add("", layout, meeting_.others());
  }
  for (const OuterOptimizer::State& state : meeting_.outer().states()) {
    all.push_back(
        numbers_of_one(state.name, trained_parameters(parameters_.parameters()), state.values, ranks_.is_root()));
    all.back().of_outer_step = true;
  }
  return all;
}

void LocalParallel::gradient_ready(const ExecSpace& space, ParameterRange range) {
  current().gradient_ready(space, range);
  if (parts_.fragments) parts_.fragments->advance(space);
}

void LocalParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  current().finish_gradients(space, [&] {
    meanwhile();
    if (parts_.fragments) parts_.fragments->advance(space);
  });
}

double LocalParallel::take_exposed_seconds() {
  return parts_.all->take_exposed_seconds() + parts_.group->take_exposed_seconds() +
         (parts_.node ? parts_.node->take_exposed_seconds() : 0) +
         (parts_.fragments ? parts_.fragments->take_exposed_seconds() : 0) +
         (parts_.adasum ? parts_.adasum->take_exposed_seconds() : 0);
}

}  // namespace lockstep
