// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/parameter_store.hpp"

#include <algorithm>

#include "comm/collective/executor.hpp"
#include "data/batch_partition.hpp"
#include "optim/gradient_scale.hpp"
#include "optim/outer_step.hpp"
#include "optim/stale_gradient.hpp"

namespace lockstep {

using Staleness = AsynchronousConfig::Staleness;

ParameterStore::ParameterStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                               ParameterBuffer& parameters, ParameterRange fraction, std::int64_t examples)
    : config_(config.asynchronous),
      ranks_(ranks),
      parameters_(parameters),
      fraction_(fraction),
      examples_(examples),
      servers_(ranks.size() - rules.workers),
      own_(slice_of(ranks.rank())),
      collect_(rules.collect),
      sum_(rules.collect, parameters.dtype(), own_.count) {
  if (!config.has_stepping_workers()) parameters.own({own_});
  else if (ranks.rank() < servers_) parameters.own({{fraction_.first, 0}});
  if (config.has_stepping_workers()) outer_.emplace(config.local, rules.workers, parameters.dtype(), own_.count);
  const DType dtype = parameters.dtype();
  const Shape shape{own_.count};
  values_ = OwnedTensor("lockstep::parameter_store::values", dtype, shape);
  std::vector<std::unique_ptr<Transport>> transports = make_transports(ranks, 2 * ranks.size());
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Worker& worker = workers_.emplace_back();
    const Shape of_worker{rank < servers_ ? 0 : own_.count};
    worker.read = OwnedTensor("lockstep::parameter_store::read", dtype, of_worker);
    worker.gradient = OwnedTensor("lockstep::parameter_store::gradient", dtype, of_worker);
    worker.values = std::move(transports[static_cast<std::size_t>(2 * rank)]);
    worker.gradients = std::move(transports[static_cast<std::size_t>(2 * rank + 1)]);
  }
}

double ParameterStore::numbers(const ParallelConfig& config, const FreeRules& rules, double slice) {
  const int outer = config.has_stepping_workers() ? OuterOptimizer::numbers_each(config.local, rules.workers) : 0;
  return static_cast<double>(2 * rules.workers + 1 + OrderedSum::buffers(rules.collect) + outer) * slice;
}

ParameterRange ParameterStore::slice_of(int rank) const {
  if (!keeps_slice(rank)) return {fraction_.first, 0};
  const RankShare share = share_of(fraction_.count, rank, servers_ > 0 ? servers_ : ranks_.size());
  return {fraction_.first + share.first, share.count};
}

void ParameterStore::adopt(const ExecSpace& space, std::int64_t version) {
  copy(space, parameters_.values(own_), values_.get());
  version_ = version;
}

bool ParameterStore::advance(const ExecSpace& space, Optimizer& optimizer) {
  bool advances = false;
  while (!events_.empty() && handle(space, optimizer, events_.front())) {
    events_.pop_front();
    advances = true;
  }
  return advances;
}

bool ParameterStore::handle(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event) {
  switch (event.kind) {
    case StoreEvent::Kind::read: return lend(space, event);
    case StoreEvent::Kind::push: return push(space, optimizer, event);
    case StoreEvent::Kind::drop: return drop(event);
    case StoreEvent::Kind::sync: return sync(space, event);
    case StoreEvent::Kind::given: break;
  }
  return true;
}

void ParameterStore::send(Transport& transport, int rank, const Tensor& numbers) {
  transport.send(rank, numbers.data, numbers.bytes());
  count_bytes_sent(numbers.bytes());
}

/// Handles a read: lends the slice to the reader, which may be this rank.
bool ParameterStore::lend(const ExecSpace& space, const StoreEvent& event) {
  const int rank = rank_of(event);
  const bool is_own = rank == ranks_.rank();
  if (!is_own && !keeps_slice(ranks_.rank())) return true;
  if (!is_own && !values_to(rank).sent()) return false;
  Worker& reader = worker(rank);
  reader.version = version_;
  copy(space, values_.get(), reader.read.get());
  if (is_own) copy(space, values_.get(), parameters_.values(own_));
  space.fence("lockstep::parameter_store::lend");
  if (is_own) {
    expect_values();
    turn_ = event;
  } else {
    send(values_to(rank), rank, reader.read.get());
    gradients_from(rank).receive(rank, reader.gradient.get().data, reader.gradient.get().bytes());
  }
  return true;
}

/// Begins to receive the other slices of what this worker reads.
void ParameterStore::expect_values() {
  for (int distance = 1; distance < ranks_.size(); ++distance) {
    if (!keeps_slice(rank_before(distance))) continue;
    const Tensor slice = parameters_.values(slice_of(rank_before(distance)));
    workers_[static_cast<std::size_t>(distance)].values->receive(rank_before(distance), slice.data, slice.bytes());
  }
}

bool ParameterStore::sync(const ExecSpace& space, const StoreEvent& event) {
  for (int distance = 1; distance < ranks_.size(); ++distance)
    if (!workers_[static_cast<std::size_t>(distance)].values->sent()) return false;
  copy(space, values_.get(), parameters_.values(own_));
  space.fence("lockstep::parameter_store::synchronize");
  expect_values();
  turn_ = event;
  if (!keeps_slice(ranks_.rank())) return true;
  for (int distance = 1; distance < ranks_.size(); ++distance)
    send(*workers_[static_cast<std::size_t>(distance)].values, rank_after(distance), values_.get());
  return true;
}

std::optional<StoreEvent> ParameterStore::take_turn() {
  if (!turn_) return std::nullopt;
  for (Worker& each : workers_) {
    if (!each.values->received() || !each.gradients->sent()) return std::nullopt;
    if (turn_->kind == StoreEvent::Kind::sync && !each.values->sent()) return std::nullopt;
  }
  return std::exchange(turn_, std::nullopt);
}

void ParameterStore::give(const ExecSpace& space) {
  has_given_ = true;
  space.fence("lockstep::parameter_store::give");
  for (int distance = 1; distance < ranks_.size(); ++distance) {
    if (!keeps_slice(rank_after(distance))) continue;
    send(*workers_[static_cast<std::size_t>(distance)].gradients, rank_after(distance),
         parameters_.gradients(slice_of(rank_after(distance))));
  }
}

bool ParameterStore::push(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event) {
  const int rank = rank_of(event);
  Worker& giver = worker(rank);
  if (event.is_update != 0 && holds_updates_) return false;
  if (rank == ranks_.rank()) {
    if (!take_given()) return false;
    has_dropped_ = false;
    copy(space, parameters_.gradients(own_), giver.gradient.get());
  } else if (!gradients_from(rank).received()) {
    return false;
  }
  correct(space, giver);
  sum_.add(space, giver.gradient.get());
  if (event.is_update != 0) update(space, optimizer, event.scalars);
  return true;
}

bool ParameterStore::drop(const StoreEvent& event) {
  const int rank = rank_of(event);
  if (rank != ranks_.rank()) return gradients_from(rank).received();
  has_dropped_ = take_given();
  return has_dropped_;
}

/// Whether this rank has given the gradient that an event is about, as other ranks of its group have.
bool ParameterStore::take_given() { return std::exchange(has_given_, false); }

void ParameterStore::correct(const ExecSpace& space, const Worker& giver) const {
  const std::int64_t staleness = version_ - giver.version;
  if (staleness == 0) return;
  if (config_.staleness == Staleness::divide && staleness > 1)
    divide_by_staleness(space, staleness, giver.gradient.get());
  if (config_.staleness == Staleness::compensate)
    compensate_delay(space, {config_.lambda_or_default(), false}, examples_, values_.get(), giver.read.get(), {},
                     giver.gradient.get());
}

/// The slice takes its place in the buffer only during the update: a pass by an older version may be under way there.
void ParameterStore::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars& scalars) {
  if (outer_) {
    outer_->step(space, {.share = 1 / static_cast<double>(collect_), .before = version_}, {0, own_.count}, sum_.sum(),
                 values_.get());
    ++version_;
    return;
  }
  const Tensor values = parameters_.values(own_), gradients = parameters_.gradients(own_);
  swap_numbers(space, values, values_.get());
  swap_numbers(space, gradients, sum_.sum());
  StepScalars now = scalars;
  now.nonfinite_before = *optimizer.nonfinite().as<const std::int32_t>();
  optimizer.step(space, parameters_, &now);
  space.fence("lockstep::parameter_store::update");
  swap_numbers(space, gradients, sum_.sum());
  swap_numbers(space, values, values_.get());
  parameters_.round(space, own_);
  ++version_;
}

double ParameterStore::square(const ExecSpace& space) const {
  double square = 0;
  if (sum_.sum().count() > 0)
    copy_to_host(space, GradientSquare(sum_.sum().count()).compute(space, sum_.sum()), &square);
  return square;
}

void ParameterStore::add_sharded_states(std::vector<ShardedState>& all) const {
  if (!outer_) return;
  const SharedLayout trained = trained_parameters(parameters_.parameters());
  for (const OuterOptimizer::State& state : outer_->states()) {
    ShardedState held{.state = state.name,
                      .kind = ShardedState::Kind::strategy,
                      .layout = trained,
                      .held = {},
                      .values = state.values,
                      .is_optional = true};
    if (own_.count > 0) held.held = {own_};
    all.push_back(std::move(held));
  }
}

}  // namespace lockstep
