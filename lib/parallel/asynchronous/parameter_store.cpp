// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/parameter_store.hpp"

#include <algorithm>
#include <utility>

#include "comm/collective/executor.hpp"
#include "data/batch/batch_partition.hpp"
#include "optim/replica_steps.hpp"
#include "optim/update_scalars.hpp"

namespace lockstep {
namespace {

void send(Transport& transport, int rank, const Tensor& numbers) {
  transport.send(rank, numbers.data, numbers.bytes());
  count_bytes_sent(numbers.bytes());
}

}  // namespace

ElementRange kept_slice(ElementRange all, int rank, int ranks, int servers) {
  if (servers > 0 && rank >= servers) return {all.first, 0};
  const RankShare share = share_of(all.count, rank, servers > 0 ? servers : ranks);
  return {all.first + share.first, share.count};
}

SliceExchange::SliceExchange(const Communicator& ranks, int servers, ElementRange all)
    : ranks_(ranks), servers_(servers), all_(all) {
  std::vector<std::unique_ptr<Transport>> transports = make_transports(ranks, 2 * ranks.size());
  for (auto next = transports.begin(); next != transports.end();) {
    values_.push_back(std::move(*next++));
    gradients_.push_back(std::move(*next++));
  }
}

void SliceExchange::send_values(int reader, const Tensor& slice) {
  send(*values_[places_after(reader)], reader, slice);
}

void SliceExchange::receive_gradients(int worker, const Tensor& slice) {
  gradients_[places_before(worker)]->receive(worker, slice.data, slice.bytes());
}

void SliceExchange::receive_values(const ParameterBuffer& parameters) {
  for (std::size_t places = 1; places < size(); ++places) {
    const int keeper = rank_before(places);
    if (!keeps_slice(keeper)) continue;
    const Tensor slice = parameters.values(slice_of(keeper));
    values_[places]->receive(keeper, slice.data, slice.bytes());
  }
}

bool SliceExchange::has_received_values() const { return std::ranges::all_of(values_, &Transport::received); }

void SliceExchange::send_gradients(const ParameterBuffer& parameters) {
  for (std::size_t places = 1; places < size(); ++places)
    if (const int keeper = rank_after(places); keeps_slice(keeper))
      send(*gradients_[places], keeper, parameters.gradients(slice_of(keeper)));
}

bool SliceExchange::has_sent_gradients() const { return std::ranges::all_of(gradients_, &Transport::sent); }

void SliceExchange::send_values_to_all(const Tensor& slice) {
  for (std::size_t places = 1; places < size(); ++places) send(*values_[places], rank_after(places), slice);
}

bool SliceExchange::has_sent_values() const { return std::ranges::all_of(values_, &Transport::sent); }

int SliceExchange::rank_after(std::size_t places) const { return (rank() + static_cast<int>(places)) % ranks_.size(); }

int SliceExchange::rank_before(std::size_t places) const {
  return (rank() + ranks_.size() - static_cast<int>(places)) % ranks_.size();
}

std::size_t SliceExchange::places_after(int rank) const {
  return static_cast<std::size_t>((rank + ranks_.size() - ranks_.rank()) % ranks_.size());
}

std::size_t SliceExchange::places_before(int rank) const {
  return static_cast<std::size_t>((ranks_.rank() + ranks_.size() - rank) % ranks_.size());
}

using Staleness = AsynchronousConfig::Staleness;

ParameterStore::ParameterStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                               ParameterBuffer& parameters, ElementRange fraction, std::int64_t examples)
    : config_(config.asynchronous),
      parameters_(parameters),
      examples_(examples),
      slices_(ranks, ranks.size() - rules.workers, fraction),
      own_(slices_.slice_of(ranks.rank())),
      collect_(rules.collect),
      sum_(rules.collect, parameters.dtype(), own_.count) {
  if (config.has_stepping_workers()) outer_.emplace(config.local, parameters.dtype(), own_.count);
  const DType dtype = parameters.dtype();
  const Shape shape{own_.count};
  values_ = OwnedTensor("lockstep::parameter_store::values", dtype, shape);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Worker& worker = workers_.emplace_back();
    const Shape of_worker{slices_.is_server(rank) ? 0 : own_.count};
    worker.read = OwnedTensor("lockstep::parameter_store::read", dtype, of_worker);
    worker.gradient = OwnedTensor("lockstep::parameter_store::gradient", dtype, of_worker);
  }
}

double ParameterStore::numbers(const ParallelConfig& config, const FreeRules& rules, double slice) {
  const int outer = config.has_stepping_workers() ? OuterOptimizer::numbers_each(config.local) : 0;
  return static_cast<double>(2 * rules.workers + 1 + OrderedSum::buffers(rules.collect) + outer) * slice;
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
    case StoreEvent::Kind::read: return serve_read(space, event);
    case StoreEvent::Kind::push: return push(space, optimizer, event);
    case StoreEvent::Kind::drop: return drop(event);
    case StoreEvent::Kind::sync: return sync(space, event);
    case StoreEvent::Kind::arrived: break;
  }
  return true;
}

/// Handles a read: sends the slice to the reader, which may be this rank.
bool ParameterStore::serve_read(const ExecSpace& space, const StoreEvent& event) {
  const int rank = rank_of(event);
  const bool is_own = rank == slices_.rank();
  if (!is_own && !slices_.keeps_slice(slices_.rank())) return true;
  if (!is_own && !slices_.has_sent_values(rank)) return false;
  Worker& reader = worker(rank);
  reader.version = version_;
  copy(space, values_.get(), reader.read.get());
  if (is_own) copy(space, values_.get(), parameters_.values(own_));
  space.fence("lockstep::parameter_store::serve_read");
  if (is_own) {
    slices_.receive_values(parameters_);
    turn_ = event;
  } else {
    slices_.send_values(rank, reader.read.get());
    slices_.receive_gradients(rank, reader.gradient.get());
  }
  return true;
}

bool ParameterStore::sync(const ExecSpace& space, const StoreEvent& event) {
  if (!slices_.has_sent_values()) return false;
  copy(space, values_.get(), parameters_.values(own_));
  space.fence("lockstep::parameter_store::synchronize");
  slices_.receive_values(parameters_);
  turn_ = event;
  if (slices_.keeps_slice(slices_.rank())) slices_.send_values_to_all(values_.get());
  return true;
}

std::optional<StoreEvent> ParameterStore::take_turn() {
  if (!turn_ || !slices_.has_received_values() || !slices_.has_sent_gradients()) return std::nullopt;
  if (turn_->kind == StoreEvent::Kind::sync && !slices_.has_sent_values()) return std::nullopt;
  return std::exchange(turn_, std::nullopt);
}

void ParameterStore::give(const ExecSpace& space) {
  has_given_ = true;
  space.fence("lockstep::parameter_store::give");
  slices_.send_gradients(parameters_);
}

bool ParameterStore::push(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event) {
  const int rank = rank_of(event);
  Worker& giver = worker(rank);
  if (event.is_update != 0 && holds_updates_) return false;
  if (rank == slices_.rank()) {
    if (!take_given()) return false;
    has_dropped_ = false;
    copy(space, parameters_.gradients(own_), giver.gradient.get());
  } else if (!slices_.has_received_gradients(rank)) {
    return false;
  }
  correct(space, giver);
  sum_.add(space, giver.gradient.get());
  if (event.is_update != 0) update(space, optimizer, event.scalars);
  return true;
}

bool ParameterStore::drop(const StoreEvent& event) {
  const int rank = rank_of(event);
  if (rank != slices_.rank()) return slices_.has_received_gradients(rank);
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
void ParameterStore::update(const ExecSpace& space, Optimizer& optimizer, const UpdateScalars& scalars) {
  if (outer_) {
    outer_->step(space, 1 / static_cast<double>(collect_), {0, own_.count}, sum_.sum(), values_.get());
    ++version_;
    return;
  }
  const Tensor values = parameters_.values(own_), gradients = parameters_.gradients(own_);
  swap_numbers(space, values, values_.get());
  swap_numbers(space, gradients, sum_.sum());
  UpdateScalars now = scalars;
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
  if (!outer_ || !outer_->velocity()) return;
  ShardedState held{.state = OuterOptimizer::velocity_name,
                    .kind = ShardedState::Kind::strategy,
                    .layout = trained_parameters(parameters_.parameters()),
                    .held = {},
                    .values = outer_->velocity(),
                    .is_optional = true};
  if (own_.count > 0) held.held = {own_};
  all.push_back(std::move(held));
}

}  // namespace lockstep
