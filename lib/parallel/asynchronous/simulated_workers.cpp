// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/simulated_workers.hpp"

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "optim/replica_steps.hpp"
#include "parallel/asynchronous/push_order.hpp"

namespace lockstep {

SimulatedWorkers::SimulatedWorkers(const ParallelConfig& config, const Communicator& ranks, PushOrder order,
                                   WorkersCourse course, ParameterBuffer& parameters)
    : AsynchronousWorkers({.course = course,
                           .steps = {config.steps_of_round(), course.last},
                           .parts_of_batch = order.parts_of_batch(),
                           .collect = order.collect()},
                          Give::rounds, parameters),
      divides_by_staleness_(config.asynchronous.staleness == AsynchronousConfig::Staleness::divide),
      record_(config.asynchronous.record),
      ranks_(ranks),
      alone_(ranks.split(ranks.rank())),
      order_(std::move(order)),
      parameters_(parameters),
      newest_("lockstep::simulated_workers::newest", parameters.dtype(), {parameters.trained_size()}),
      outer_(config.local, parameters.dtype(), parameters.trained_size()),
      sum_(order_.collect(), parameters.dtype(), parameters.trained_size()),
      square_(parameters.trained_size()) {
  if (order_.members() > 1)
    pieces_.emplace(alone_, ParallelConfig::in_fixed_tree(order_.members()), parameters.gradients());
  const Shape shape{parameters.trained_size()};
  for (int number = ranks.rank(); number < order_.workers(); number += ranks.size()) {
    Worker& worker = workers_.emplace_back(Worker{{}, {}, OwnSteps(alone_)});
    if (order_.keeps_copies())
      worker.read = OwnedTensor("lockstep::simulated_workers::read", parameters.dtype(), shape);
  }
  std::int64_t most = 0;
  for (std::int64_t update = 1; update <= run().steps.updates(); ++update)
    most = std::max<std::int64_t>(most, std::ranges::count_if(order_.of_update(update), [&](const auto& push) {
                                    return rank_of(push.worker) == ranks.rank();
                                  }));
  for (std::int64_t i = 0; i < most; ++i)
    changes_.emplace_back("lockstep::simulated_workers::change", parameters.dtype(), shape);
  traits_.dealing.parts_of_batch = order_.parts_of_batch() * order_.members();
}

void SimulatedWorkers::go_on_after(std::int64_t steps, std::int64_t optimizer_steps) {
  AsynchronousWorkers::go_on_after(steps, optimizer_steps);
  if (ranks_.is_root() && !record_.empty()) write_record(record_, order_);
}

void SimulatedWorkers::bind(const Updater& updater) {
  AsynchronousWorkers::bind(updater);
  for (Worker& worker : workers_)
    for (const Optimizer::State& state : optimizer().states())
      worker.states.emplace_back("lockstep::simulated_workers::state", state.values.dtype, state.values.shape);
}

void SimulatedWorkers::keep_copies(const ExecSpace& space, bool before_update) {
  for (const PushOrder::Copy& each : order_.copies(version_, before_update))
    if (rank_of(each.worker) == ranks_.rank()) copy(space, newest_.get(), worker(each.worker).read.get());
}

AsynchronousWorkers::Turn SimulatedWorkers::next_turn(const ExecSpace& space) {
  for (; version_ < sync_; apply_changes(space)) {
    while (place_ < order_.collect() && rank_of(push().worker) != ranks_.rank()) ++place_;
    if (place_ == order_.collect()) continue;
    const bool is_newest = order_.staleness(version_ + 1, place_) == 0;
    copy(space, is_newest ? newest_.get() : worker(push().worker).read.get(), trained());
    parameters_.round(space);
    swap_states(space);
    return {.part = order_.part_of(version_ + 1, place_)};
  }
  copy(space, newest_.get(), trained());
  parameters_.round(space);
  square_of_sum_ = f64_on_host(space, square_.compute(space, sum_.sum()));  // before gradients take the sum's place
  return {.version = version_, .examples = examples_since_sync()};
}

std::int64_t SimulatedWorkers::examples_since_sync() const {
  std::int64_t steps = 0;
  for (std::int64_t update = run().synced + 1; update <= version_; ++update)
    for (std::int64_t place = 0; place < order_.collect(); ++place)
      steps += run().steps.of(order_.part_of(update, place) / run().parts_of_batch);
  return steps * (run().course.batch / run().parts_of_batch);
}

/// Exchanges the optimizer's states with those of the worker whose round it is.
void SimulatedWorkers::swap_states(const ExecSpace& space) {
  const std::vector<Optimizer::State>& states = optimizer().states();
  for (std::size_t i = 0; i < states.size(); ++i)
    swap_numbers(space, states[i].values, worker(push().worker).states[i].get());
}

void SimulatedWorkers::round_is_over(const ExecSpace& space) {
  const Tensor change = parameters_.gradients({0, parameters_.trained_size()});
  const std::int64_t staleness = order_.staleness(version_ + 1, place_);
  if (divides_by_staleness_ && staleness > 1) divide_by_staleness(space, staleness, change);
  copy(space, change, changes_[changed_++].get());
  swap_states(space);
  ++place_;
}

/// Applies the changes of an update, all of whose rounds have been simulated. Collective.
void SimulatedWorkers::apply_changes(const ExecSpace& space) {
  std::size_t own = 0;
  for (const PushOrder::Push& push : order_.of_update(version_ + 1)) {
    const int from = rank_of(push.worker);
    const Tensor change = from == ranks_.rank() ? changes_[own++].get()
                                                : parameters_.gradients({0, parameters_.trained_size()});
    const Timer timer;
    ranks_.broadcast(space, change, from);
    exposed_seconds_ += timer.seconds();
    sum_.add(space, change);
  }
  keep_copies(space, true);
  outer_.step(space, 1 / static_cast<double>(order_.collect()), {0, parameters_.trained_size()}, sum_.sum(),
              newest_.get());
  ++version_;
  place_ = 0;
  changed_ = 0;
  keep_copies(space, false);
}

UpdateScope SimulatedWorkers::scope_of_step(const BatchPlan& batch) const {
  return {.examples = batch.global_examples, .group = &alone_, .in_run = {.losses = UpdateScope::Losses::added}};
}

void SimulatedWorkers::gradient_sum_done(const ExecSpace& space) {
  if (pieces_ && !syncs()) pieces_->gradient_sum_done(space);
}

void SimulatedWorkers::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (pieces_ && !syncs()) pieces_->finish(space, meanwhile);
  else meanwhile();
}

void SimulatedWorkers::share(const ExecSpace& space) {
  version_ = run().synced;
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  copy(space, trained(), newest_.get());
  if (outer_.velocity()) ranks_.broadcast(space, outer_.velocity());
  for (Worker& worker : workers_) worker.own.begin(space, alone_, run().optimizer_steps);
  if (version_ == 0) keep_copies(space, false);
}

std::vector<ShardedState> SimulatedWorkers::sharded_states() const {
  std::vector<ShardedState> all{replicated_parameters(parameters_, ranks_.is_root())};
  const SharedLayout trained = trained_parameters(parameters_.parameters());
  for (int number = 0; number < order_.workers(); ++number) {
    const bool holds = rank_of(number) == ranks_.rank();
    const Worker* const worker = holds ? &workers_[static_cast<std::size_t>(number / ranks_.size())] : nullptr;
    const ShardedState::Replica replica{number, order_.workers()};
    if (order_.keeps_copies()) {
      all.push_back(state_of_one_rank("", trained, holds ? worker->read.get() : newest_.get(), holds));
      all.back().replica = replica;
      all.back().of_simulated_worker = true;
    }
    std::vector<Optimizer::State> states = optimizer().states();
    for (std::size_t i = 0; holds && i < states.size(); ++i) states[i].values = worker->states[i].get();
    add_numbers_of_worker(states, holds ? &worker->own : nullptr, replica, all);
  }
  if (outer_.velocity())
    all.push_back(state_of_strategy(OuterOptimizer::velocity_name, trained, outer_.velocity(), ranks_.is_root()));
  return all;
}

}  // namespace lockstep
