// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/simulated_gradients.hpp"

#include <utility>

#include "optim/replica_steps.hpp"

namespace lockstep {

using Staleness = AsynchronousConfig::Staleness;

SimulatedGradients::SimulatedGradients(const AsynchronousConfig& config, const Communicator& ranks,
                                       const PushOrder& order, std::unique_ptr<ParallelStrategy> sums,
                                       ParameterBuffer& parameters)
    : config_(config),
      ranks_(ranks),
      order_(order),
      sums_(std::move(sums)),
      ranks_per_gradient_(ranks_of_gradient(config, ranks.size())),
      parameters_(parameters),
      gradients_per_rank_(order_.collect() * ranks_per_gradient_ / ranks.size()) {
  if (order_.members() > 1)
    pieces_.emplace(ranks.split(ranks.rank() / ranks_per_gradient_), ParallelConfig::in_fixed_tree(order_.members()),
                    parameters.gradients());
  for (int i = 0; i < order_.workers(); ++i) {
    Worker& worker = workers_.emplace_back();
    const Shape shape{parameters.trained_size()};
    if (order_.keeps_copies())
      worker.read = OwnedTensor("lockstep::simulated_gradients::read", parameters.dtype(), shape);
    if (config_.compensates() && config_.adaptive)
      worker.mean_square = OwnedTensor("lockstep::simulated_gradients::mean_square", parameters.dtype(), shape);
  }
  traits_.one_version = false;
}

void SimulatedGradients::begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) {
  updater().before_change();
  step_ = number;
  examples_ = batch.global_examples;
  done_ = pieces_done_ = 0;
  if (number == 1) keep_copies(space, 0, false);
  swap_version(space);
}

/// Puts into the buffer the parameters that the next gradient is computed by, or the newest ones again. Does nothing if
/// these are the same.
void SimulatedGradients::swap_version(const ExecSpace& space) {
  if (order_.staleness(step_, place()) == 0) return;
  swap_numbers(space, trained(), worker().read.get());
  parameters_.round(space, {0, parameters_.trained_size()});
}

void SimulatedGradients::keep_copies(const ExecSpace& space, std::int64_t version, bool before_update) {
  for (const PushOrder::Copy& each : order_.copies(version, before_update))
    copy(space, trained(), workers_[static_cast<std::size_t>(each.worker)].read.get());
}

/// Corrects a worker's gradient for its staleness, while the parameters are those that it was computed by.
void SimulatedGradients::correct(const ExecSpace& space) {
  const std::int64_t staleness = order_.staleness(step_, place()),
                     examples = share_of(examples_, place(), order_.collect()).count;
  const Tensor gradient = parameters_.gradients({0, parameters_.trained_size()});
  if (config_.staleness == Staleness::divide && staleness > 1) divide_by_staleness(space, staleness, gradient);
  if (config_.staleness != Staleness::compensate || examples == 0 || (staleness == 0 && !config_.adaptive)) return;
  compensate_delay(space, {config_.lambda_or_default(), config_.adaptive}, examples,
                   staleness == 0 ? trained() : worker().read.get(), trained(), worker().mean_square.get(), gradient);
}

void SimulatedGradients::gradient_sum_done(const ExecSpace& space) {
  if (pieces_) {
    pieces_->gradient_sum_done(space);
    if (++pieces_done_ % (order_.members() / ranks_per_gradient_) != 0) return;
    pieces_->finish(space, [] {});
  }
  correct(space);
  swap_version(space);
  sums_->gradient_ready(space, {0, parameters_.layout().summed_size()});
  sums_->gradient_sum_done(space);
  if (++done_ < gradients_per_rank_) swap_version(space);
}

void SimulatedGradients::end_step(const ExecSpace& space) { keep_copies(space, step_, false); }

void SimulatedGradients::share(const ExecSpace& space) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  share_states(space, ranks_, optimizer());
  for (const Worker& worker : workers_)
    for (const Tensor& numbers : {worker.read.get(), worker.mean_square.get()})
      if (numbers) ranks_.broadcast(space, numbers);
}

std::vector<ShardedState> SimulatedGradients::sharded_states() const {
  std::vector<ShardedState> all = replicated_states(parameters_, optimizer(), ranks_.is_root());
  const SharedLayout trained = trained_parameters(parameters_.parameters());
  for (int i = 0; i < order_.workers(); ++i) {
    const Worker& worker = workers_[static_cast<std::size_t>(i)];
    const auto add = [&](ShardedState numbers) {
      numbers.replica = ShardedState::Replica{i, order_.workers()};
      numbers.of_simulated_worker = true;
      all.push_back(std::move(numbers));
    };
    if (worker.read.get()) add(state_of_one_rank("", trained, worker.read.get(), ranks_.is_root()));
    if (worker.mean_square.get())
      add(state_of_strategy(mean_square_state, trained, worker.mean_square.get(), ranks_.is_root()));
  }
  return all;
}

}  // namespace lockstep
