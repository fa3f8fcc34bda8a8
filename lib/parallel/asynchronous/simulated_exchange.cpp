// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/simulated_exchange.hpp"

#include <algorithm>

#include "base/duration.hpp"
#include "optim/replica_steps.hpp"

namespace lockstep {

SimulatedExchange::SimulatedExchange(const ParallelConfig& config, const UpdateSteps& steps, const PushOrder& order,
                                     const Communicator& ranks, std::int64_t part_examples, ParameterBuffer& parameters,
                                     const Optimizer& optimizer)
    : divides_by_staleness_(config.asynchronous.staleness == AsynchronousConfig::Staleness::divide),
      steps_(steps),
      order_(order),
      ranks_(ranks),
      part_examples_(part_examples),
      parameters_(parameters),
      optimizer_(optimizer),
      newest_("lockstep::simulated_exchange::newest", parameters.dtype(), {parameters.trained_size()}),
      outer_(config.local, parameters.dtype(), parameters.trained_size()),
      sum_(order.collect(), parameters.dtype(), parameters.trained_size()) {
  const Shape shape{parameters.trained_size()};
  for (int number = ranks.rank(); number < order_.workers(); number += ranks.size()) {
    Worker& worker = workers_.emplace_back();
    if (order_.keeps_copies())
      worker.read = OwnedTensor("lockstep::simulated_exchange::read", parameters.dtype(), shape);
    for (const Optimizer::State& state : optimizer.states())
      worker.states.emplace_back("lockstep::simulated_exchange::state", state.values.dtype, state.values.shape);
  }
  std::int64_t most = 0;
  for (std::int64_t update = 1; update <= order_.updates(); ++update)
    most = std::max<std::int64_t>(most, std::ranges::count_if(order_.of_update(update), [&](const auto& push) {
                                    return rank_of(push.worker) == ranks.rank();
                                  }));
  for (std::int64_t i = 0; i < most; ++i)
    changes_.emplace_back("lockstep::simulated_exchange::change", parameters.dtype(), shape);
}

void SimulatedExchange::begin(const ExecSpace& space, std::int64_t version, std::int64_t optimizer_steps) {
  version_ = version;
  copy(space, trained(), newest_.get());
  if (outer_.velocity()) ranks_.broadcast(space, outer_.velocity());
  for (Worker& worker : workers_)
    worker.optimizer_steps = worker.noted.restored(space, Communicator::alone()).value_or(optimizer_steps);
  if (version_ == 0) keep_copies(space, false);
}

void SimulatedExchange::run_until(std::int64_t sync) {
  sync_ = sync;
  examples_ = 0;
}

void SimulatedExchange::keep_copies(const ExecSpace& space, bool before_update) {
  for (const PushOrder::Copy& each : order_.copies(version_, before_update))
    if (rank_of(each.worker) == ranks_.rank()) copy(space, newest_.get(), worker(each.worker).read.get());
}

WorkerTurn SimulatedExchange::next_turn(const ExecSpace& space) {
  for (; version_ < sync_; apply_changes(space)) {
    while (place_ < order_.collect() && rank_of(next_push().worker) != ranks_.rank()) ++place_;
    if (place_ == order_.collect()) continue;
    const bool is_newest = order_.staleness(version_ + 1, place_) == 0;
    copy(space, is_newest ? newest_.get() : worker(next_push().worker).read.get(), trained());
    parameters_.round(space);
    swap_states(space);
    return {.part = order_.part_of(version_ + 1, place_)};
  }
  copy(space, newest_.get(), trained());
  parameters_.round(space);
  return {.version = version_, .examples = examples_};
}

/// Exchanges the optimizer's states with those of the worker whose round it is.
void SimulatedExchange::swap_states(const ExecSpace& space) {
  const std::vector<Optimizer::State>& states = optimizer_.states();
  for (std::size_t i = 0; i < states.size(); ++i)
    swap_numbers(space, states[i].values, worker(next_push().worker).states[i].get());
}

void SimulatedExchange::push(const ExecSpace& space) {
  const Tensor change = parameters_.gradients({0, parameters_.trained_size()});
  const std::int64_t staleness = order_.staleness(version_ + 1, place_);
  if (divides_by_staleness_ && staleness > 1) divide_by_staleness(space, staleness, change);
  copy(space, change, changes_[changed_++].get());
  swap_states(space);
  ++place_;
}

/// Applies the changes of an update, all of whose rounds have been simulated. Collective.
void SimulatedExchange::apply_changes(const ExecSpace& space) {
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
  for (std::int64_t place = 0; place < order_.collect(); ++place)
    examples_ += steps_.of(order_.part_of(version_ + 1, place) / order_.parts_of_batch()) * part_examples_;
  keep_copies(space, true);
  outer_.step(space, 1 / static_cast<double>(order_.collect()), {0, parameters_.trained_size()}, sum_.sum(),
              newest_.get());
  ++version_;
  place_ = 0;
  changed_ = 0;
  keep_copies(space, false);
}

double SimulatedExchange::end_sync(const ExecSpace& space) {
  for (Worker& worker : workers_) worker.noted.note(space, worker.optimizer_steps);
  return f64_on_host(space, GradientSquare(parameters_.trained_size()).compute(space, sum_.sum()));
}

std::vector<ShardedState> SimulatedExchange::sharded_states() const {
  std::vector<ShardedState> all{replicated_parameters(parameters_, ranks_.is_root())};
  const SharedLayout trained = trained_parameters(parameters_.parameters());
  const OptimizerStepCount nothing;
  for (int number = 0; number < order_.workers(); ++number) {
    const bool holds = rank_of(number) == ranks_.rank();
    const Worker* const worker = holds ? &workers_[static_cast<std::size_t>(number / ranks_.size())] : nullptr;
    const ShardedState::Replica replica{number, order_.workers()};
    if (order_.keeps_copies()) {
      all.push_back(state_of_one_rank("", trained, holds ? worker->read.get() : newest_.get(), holds));
      all.back().replica = replica;
      all.back().of_simulated_worker = true;
    }
    std::vector<Optimizer::State> states = optimizer_.states();
    for (std::size_t i = 0; holds && i < states.size(); ++i) states[i].values = worker->states[i].get();
    (holds ? worker->noted : nothing).add_with_states(all, states, holds, replica);
  }
  if (outer_.velocity())
    all.push_back(state_of_strategy(OuterOptimizer::velocity_name, trained, outer_.velocity(), ranks_.is_root()));
  return all;
}

}  // namespace lockstep
