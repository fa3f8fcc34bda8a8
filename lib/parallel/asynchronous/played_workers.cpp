// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/played_workers.hpp"

#include <algorithm>
#include <utility>

#include "base/timer.hpp"
#include "optim/stale_gradient.hpp"

namespace lockstep {

PlayedWorkers::PlayedWorkers(const ParallelConfig& config, const Communicator& ranks, PushOrder order,
                             WorkersCourse course, ParameterBuffer& parameters)
    : config_(config.asynchronous),
      steps_{config.rounds().every, course.last},
      ranks_(ranks),
      alone_(ranks.split(ranks.rank())),
      order_(std::move(order)),
      course_(std::move(course)),
      parameters_(parameters),
      newest_("lockstep::played_workers::newest", parameters.dtype(), {parameters.trained_size()}),
      outer_(config.local, order_.workers(), parameters.dtype(), parameters.trained_size()),
      round_(steps_, order_.parts_of_batch(), parameters),
      sum_(order_.collect(), parameters.dtype(), parameters.trained_size()),
      square_(parameters.trained_size()),
      square_of_mean_("lockstep::played_workers::square", DType::f64, {1}) {
  if (order_.members() > 1)
    pieces_.emplace(alone_, ParallelConfig::in_fixed_tree(order_.members()), parameters.gradients());
  const Shape shape{parameters.trained_size()};
  for (int number = ranks.rank(); number < order_.workers(); number += ranks.size()) {
    Worker& worker = workers_.emplace_back(Worker{{}, {}, OwnSteps(alone_)});
    if (order_.keeps_copies()) worker.read = OwnedTensor("lockstep::played_workers::read", parameters.dtype(), shape);
  }
  std::int64_t most = 0;
  for (std::int64_t update = 1; update <= steps_.updates(); ++update)
    most = std::max<std::int64_t>(most, std::ranges::count_if(order_.of_update(update), [&](const auto& push) {
                                    return rank_of(push.worker) == ranks.rank();
                                  }));
  for (std::int64_t i = 0; i < most; ++i)
    changes_.emplace_back("lockstep::played_workers::change", parameters.dtype(), shape);
}

void PlayedWorkers::go_on_behind(std::int64_t steps, std::int64_t optimizer_steps) {
  version_ = met_ = steps_.updates_before(steps);
  optimizer_steps_ = optimizer_steps;
}

void PlayedWorkers::update_by(Optimizer& optimizer, Coefficients coefficients) {
  optimizer_ = &optimizer;
  coefficients_ = std::move(coefficients);
  for (Worker& worker : workers_)
    for (const Optimizer::State& state : optimizer.states())
      worker.states.emplace_back("lockstep::played_workers::state", state.values.dtype, state.values.shape);
}

void PlayedWorkers::keep_copies(const ExecSpace& space, bool before_update) {
  for (const PushOrder::Copy& each : order_.copies(version_, before_update))
    if (rank_of(each.worker) == ranks_.rank()) copy(space, newest_.get(), worker(each.worker).read.get());
}

PartRequest PlayedWorkers::next_part(const ExecSpace& space) {
  if (std::exchange(meets_, false)) is_first_ = true;
  if (round_.under_way()) return request();
  const std::int64_t meeting = steps_.next_meeting(met_ + 1, course_.meets);
  for (;; apply_changes(space)) {
    if (version_ == meeting) break;
    while (place_ < order_.collect() && rank_of(push().worker) != ranks_.rank()) ++place_;
    if (place_ == order_.collect()) continue;
    begin_round(space);
    return request();
  }
  copy(space, newest_.get(), trained());
  parameters_.round(space);
  meets_ = true;
  const std::int64_t examples = examples_since();
  // The sum of gradients that are asked for is one over all examples.
  const double factor = static_cast<double>(examples) / static_cast<double>(order_.collect());
  const double square = factor * factor * f64_on_host(space, square_.compute(space, sum_.sum()));
  copy_from_host(space, &square, square_of_mean_.get());
  return {.batches = steps_.behind(version_), .examples = examples};
}

/// Of all workers, since the last meeting.
std::int64_t PlayedWorkers::examples_since() const {
  std::int64_t steps = 0;
  for (std::int64_t update = met_ + 1; update <= version_; ++update)
    for (std::int64_t place = 0; place < order_.collect(); ++place)
      steps += steps_.of_round(round_of(update, place) / order_.parts_of_batch(),
                               order_.of_update(update)[static_cast<std::size_t>(place)].steps);
  return steps * (course_.batch / order_.parts_of_batch());
}

std::int64_t PlayedWorkers::round_of(std::int64_t update, std::int64_t place) const {
  const std::span<const std::int64_t> rounds = order_.parts_of(update);
  return rounds.empty() ? (update - 1) * order_.collect() + place : rounds[static_cast<std::size_t>(place)];
}

void PlayedWorkers::begin_round(const ExecSpace& space) {
  const bool is_newest = order_.staleness(version_ + 1, place_) == 0;
  copy(space, is_newest ? newest_.get() : worker(push().worker).read.get(), trained());
  parameters_.round(space);
  swap_states(space);
  round_.begin(space, round_of(version_ + 1, place_), push().steps);
}

/// The optimizer's change places with those of the worker whose round it is.
void PlayedWorkers::swap_states(const ExecSpace& space) {
  for (std::size_t i = 0; i < optimizer_->states().size(); ++i)
    swap_numbers(space, optimizer_->states()[i].values, worker(push().worker).states[i].get());
}

void PlayedWorkers::end_round(const ExecSpace& space) {
  round_.take_difference(space);
  const std::int64_t staleness = order_.staleness(version_ + 1, place_);
  if (config_.staleness == AsynchronousConfig::Staleness::divide && staleness > 1)
    divide_by_staleness(space, staleness, gradients());
  copy(space, gradients(), changes_[changed_++].get());
  swap_states(space);
  ++place_;
}

/// All rounds of the update are played. Collective.
void PlayedWorkers::apply_changes(const ExecSpace& space) {
  std::size_t own = 0;
  for (const PushOrder::Push& push : order_.of_update(version_ + 1)) {
    const int from = rank_of(push.worker);
    const Tensor change = from == ranks_.rank() ? changes_[own++].get() : gradients();
    const Timer timer;
    ranks_.broadcast(space, change, from);
    exposed_seconds_ += timer.seconds();
    sum_.add(space, change);
  }
  keep_copies(space, true);
  outer_.step(space, {.share = 1 / static_cast<double>(order_.collect()), .before = version_},
              {0, parameters_.trained_size()}, sum_.sum(), newest_.get());
  ++version_;
  place_ = 0;
  changed_ = 0;
  keep_copies(space, false);
}

StepRanks PlayedWorkers::begin_step(const ExecSpace&, std::int64_t, const BatchPlan& batch,
                                    const std::function<void()>& before_change) {
  before_change();
  const auto losses = std::exchange(is_first_, false) ? StepRanks::Losses::anew : StepRanks::Losses::added;
  if (!meets_)
    return {.examples = batch.global_examples, .group = &alone_, .meets = false, .updates = 0, .losses = losses};
  return {.examples = batch.global_examples,
          .one_version = false,
          .updates = steps_.behind(version_) - steps_.behind(met_),
          .losses = losses};
}

void PlayedWorkers::shard_done(const ExecSpace& space) {
  if (pieces_ && !meets_) pieces_->shard_done(space);
}

void PlayedWorkers::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (pieces_ && !meets_) pieces_->finish(space, meanwhile);
  else meanwhile();
}

void PlayedWorkers::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double) {
  if (!meets_) round_.update(space, optimizer, coefficients_, *step, worker(push().worker).own);
}

bool PlayedWorkers::end_step(const ExecSpace& space, Optimizer&, double, const std::function<void()>&) {
  if (meets_) met_ = version_;
  else if (round_.end_step()) end_round(space);
  return false;
}

/// Behind a meeting, as FreeParallel has it.
Tensor PlayedWorkers::gradient_square(const ExecSpace& space) {
  return meets_ ? square_of_mean_.get() : square_.compute(space, gradients());
}

/// Of scaled losses, which are refused.
Tensor PlayedWorkers::nonfinite_gradients(const ExecSpace& space) {
  fill_zero(space, square_of_mean_.get());
  return square_of_mean_.get();
}

void PlayedWorkers::share(const ExecSpace& space, Optimizer&) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  copy(space, trained(), newest_.get());
  for (const OuterOptimizer::State& state : outer_.states()) ranks_.broadcast(space, state.values);
  for (Worker& worker : workers_) worker.own.begin(space, alone_, optimizer_steps_);
  if (version_ == 0) keep_copies(space, false);
}

std::vector<HeldNumbers> PlayedWorkers::held_numbers(const Optimizer& optimizer) const {
  std::vector<HeldNumbers> all = whole_numbers(parameters_, optimizer, ranks_.is_root());
  all.erase(all.begin() + 1, all.end());
  const std::vector<Parameter> trained = trained_parameters(parameters_.parameters());
  for (int number = 0; number < order_.workers(); ++number) {
    const bool holds = rank_of(number) == ranks_.rank();
    const Worker* const worker = holds ? &workers_[static_cast<std::size_t>(number / ranks_.size())] : nullptr;
    const HeldNumbers::Replica replica{number, order_.workers()};
    if (order_.keeps_copies()) {
      all.push_back(numbers_of_one("", trained, holds ? worker->read.get() : newest_.get(), holds));
      all.back().replica = replica;
    }
    std::vector<Optimizer::State> states = optimizer.states();
    for (std::size_t i = 0; holds && i < states.size(); ++i) states[i].values = worker->states[i].get();
    add_numbers_of_worker(states, holds ? &worker->own : nullptr, replica, all);
  }
  for (const OuterOptimizer::State& state : outer_.states()) {
    all.push_back(numbers_of_one(state.name, trained, state.values, ranks_.is_root()));
    all.back().of_outer_step = true;
  }
  return all;
}

}  // namespace lockstep
