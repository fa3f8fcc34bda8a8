// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local_parallel.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/elementwise.hpp"

namespace lockstep {
namespace {

/// Elements [first, first + count) of a flat tensor.
Tensor flat_part(const Tensor& numbers, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(numbers.data) + static_cast<std::size_t>(first) * size_of(numbers.dtype),
          numbers.dtype,
          {count}};
}

/// sum += count, unless the step is left out.
void add_examples(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum) {
  Kokkos::parallel_for(
      "lockstep::local_parallel::count", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *sum += *left_out != 0 ? 0.0 : count; });
}

}  // namespace

Topology ranks_of_step(const LocalConfig& config, const Topology& topology) {
  const int rank = topology.all.rank();
  const std::int64_t number = config.group ? rank / *config.group : topology.node_of[static_cast<std::size_t>(rank)];
  return topology.of(topology.all.split(static_cast<int>(number)));
}

LocalParallel::LocalParallel(const LocalConfig& config, const Topology& topology, const Topology& group, Parts parts,
                             const BatchPartition& partition, std::int64_t last_step, ParameterBuffer& parameters)
    : config_(config),
      ranks_(topology.all),
      group_(group.all),
      group_ranks_(group.all.all_gather(topology.all.rank())),
      parts_(std::move(parts)),
      partition_(partition),
      last_step_(last_step),
      parameters_(parameters),
      others_("lockstep::local_parallel::others", parameters.dtype(), {parameters.layout().summed_size()}),
      stepped_("lockstep::local_parallel::stepped", DType::f64, {1}) {
  const std::vector<std::int64_t> firsts = ranks_.all_gather(group_ranks_.front());
  std::vector<std::int64_t> groups = firsts;
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  groups_ = static_cast<int>(groups.size());
  group_number_ = static_cast<int>(std::ranges::lower_bound(groups, group_ranks_.front()) - groups.begin());
  if (config_.has_momentum())
    velocity_ = OwnedTensor("lockstep::local_parallel::velocity", parameters.dtype(), {parameters.trained_size()});
}

bool LocalParallel::is_common(std::int64_t step) const {
  return step <= config_.from_step || step == last_step_ || (step - config_.from_step) % config_.every == 0;
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
  const Tensor values = moving(parameters_.values());
  if (config_.keeps_replicas() && !has_others_) {
    before_change();
    if (number == 1) copy(space, values, others_.get());  // all begin with the centre
    else swap_numbers(space, values, others_.get());
    parameters_.round(space);
  } else if (!has_others_) {
    copy(space, values, others_.get());
  }
  has_others_ = true;
  return {.examples = examples_of_group(batch.global_examples),
          .group = is_local(number) ? &group_ : nullptr,
          .numbers = group_ranks_,
          .meets = is_common(number)};
}

Tensor LocalParallel::gradient_square(const ExecSpace& space) {
  return has_met_ ? square_ : current().gradient_square(space);
}

void LocalParallel::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step,
                           double statistics_factor) {
  current().update(space, optimizer, step, statistics_factor);
  if (steps_alone_)
    add_examples(space, static_cast<double>(examples_of_group_) / group_.size(), &step->left_out,
                 stepped_.get().as<double>());
}

/// What this rank's numbers count in sums over all ranks, and `learning_rate` as rank 0 has it. None where no group has
/// stepped.
std::optional<double> LocalParallel::take_weight(const ExecSpace& space, double& learning_rate) {
  double own = 0;
  copy_to_host(space, stepped_.get(), &own);
  fill_zero(space, stepped_.get());
  std::array<double, 2> sums{own, ranks_.is_root() ? learning_rate : 0};
  ranks_.all_reduce_sum(sums);
  learning_rate = sums[1];
  return sums[0] > 0 ? std::optional(own / sums[0]) : std::nullopt;
}

bool LocalParallel::end_step(const ExecSpace& space, Optimizer& optimizer, double learning_rate,
                             const std::function<void()>& before_change) {
  if (!steps_alone_ || !is_common(step_)) return false;
  square_ = current().gradient_square(space);
  before_change();
  const std::optional<double> weight = take_weight(space, learning_rate);
  if (config_.keeps_replicas()) pull_together(space, weight.value_or(0));
  else if (weight) step_outside(space, *weight, learning_rate);
  parameters_.round(space);
  if (weight && config_.state == LocalConfig::State::average && groups_ > 1) average_states(space, optimizer, *weight);
  if (config_.state == LocalConfig::State::reset)
    for (const Optimizer::State& state : optimizer.states()) fill_zero(space, state.values);
  has_met_ = true;
  return groups_ > 1;
}

OuterStep LocalParallel::outer(double learning_rate) const {
  const double rate = config_.learning_rate_or_default(groups_), momentum = config_.momentum_or_default();
  if (config_.outer == Outer::nesterov)
    return {.decay = momentum, .gain = 1, .learning_rate = rate, .direct = 1, .by_velocity = momentum};
  if (config_.outer == Outer::slowmo)
    return {.decay = momentum,
            .gain = learning_rate > 0 ? 1 / learning_rate : 0,
            .learning_rate = rate * learning_rate,
            .direct = 0,
            .by_velocity = 1};
  return {};
}

/// The gradients' memory holds differences meanwhile: it is as long, and ranks sum it.
void LocalParallel::step_outside(const ExecSpace& space, double weight, double learning_rate) {
  const Tensor values = moving(parameters_.values()), before = others_.get(), differences = parameters_.gradients();
  weighted_difference(space, weight, before, values, moving(differences));
  parts_.all->finish_gradients(space, [] {});
  const std::int64_t trained = parameters_.trained_size(), statistics = before.count() - trained;
  outer_step(space, outer(learning_rate), flat_part(differences, 0, trained), velocity_.get(),
             flat_part(before, 0, trained));
  if (statistics > 0)
    outer_step(space, {}, flat_part(differences, trained, statistics), {}, flat_part(before, trained, statistics));
  copy(space, before, values);
}

void LocalParallel::pull_together(const ExecSpace& space, double weight) {
  const Tensor values = moving(parameters_.values()), centre = others_.get(), differences = parameters_.gradients();
  const double pull = config_.learning_rate_or_default(groups_);
  const std::int64_t trained = parameters_.trained_size(), statistics = centre.count() - trained;
  weighted_difference(space, pull / group_.size(), flat_part(centre, 0, trained), flat_part(values, 0, trained),
                      flat_part(differences, 0, trained));
  if (statistics > 0)
    weighted_difference(space, weight, flat_part(centre, trained, statistics), flat_part(values, trained, statistics),
                        flat_part(differences, trained, statistics));
  parts_.all->finish_gradients(space, [] {});
  pull_towards(space, pull, flat_part(centre, 0, trained), flat_part(values, 0, trained));
  outer_step(space, {}, moving(differences), {}, centre);
  swap_numbers(space, values, centre);
  has_others_ = false;
}

void LocalParallel::average_states(const ExecSpace& space, const Optimizer& optimizer, double weight) {
  const Tensor room = parameters_.gradients();
  for (const Optimizer::State& state : optimizer.states())
    for (std::int64_t first = 0; first < state.values.count(); first += parameters_.trained_size()) {
      const std::int64_t count = std::min(parameters_.trained_size(), state.values.count() - first);
      const Tensor numbers = flat_part(state.values, first, count), sums = flat_part(room, 0, count);
      fill_zero(space, room);
      accumulate(space, weight, numbers, sums);
      parts_.all->finish_gradients(space, [] {});
      copy(space, sums, numbers);
    }
}

void LocalParallel::share(const ExecSpace& space, Optimizer& optimizer) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  if (velocity_.get()) ranks_.broadcast(space, velocity_.get());
  if (config_.keeps_replicas()) group_.broadcast(space, others_.get());
  const Communicator& alike = keeps_states() ? group_ : ranks_;
  for (const Optimizer::State& state : optimizer.states()) alike.broadcast(space, state.values);
  fill_zero(space, stepped_.get());
  has_others_ = false;
}

std::vector<HeldNumbers> LocalParallel::held_numbers(const Optimizer& optimizer) const {
  std::vector<HeldNumbers> all = whole_numbers(parameters_, optimizer, ranks_.is_root());
  if (keeps_states()) all.erase(all.begin() + 1, all.end());
  for (int group = 0; group < groups_; ++group) {
    const bool holds = group == group_number_ && group_.is_root();
    const auto add = [&](const std::string& state, const std::vector<Parameter>& layout, const Tensor& values) {
      all.push_back(numbers_of_one(state, layout, values, holds));
      all.back().replica = HeldNumbers::Replica{group, groups_};
    };
    if (keeps_states())
      for (const Optimizer::State& state : optimizer.states()) add(state.name, state.layout, state.values);
    if (!config_.keeps_replicas()) continue;
    std::vector<Parameter> layout = parameters_.parameters();
    std::erase_if(layout, [](const Parameter& each) { return each.kind == ParameterSpec::Kind::frozen; });
    add("", layout, others_.get());
  }
  if (velocity_.get()) {
    all.push_back(
        numbers_of_one("velocity", trained_parameters(parameters_.parameters()), velocity_.get(), ranks_.is_root()));
    all.back().of_outer_step = true;
  }
  return all;
}

double LocalParallel::take_exposed_seconds() {
  return parts_.all->take_exposed_seconds() + parts_.group->take_exposed_seconds();
}

}  // namespace lockstep
