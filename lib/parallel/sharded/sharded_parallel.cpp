// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded/sharded_parallel.hpp"

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "ops/reduction.hpp"
#include "parallel/reducers/bucketed_reducer.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"

namespace lockstep {
namespace {

std::vector<ElementRange> owned_of(const ShardPlace& place, const std::vector<ElementRange>& buckets) {
  std::vector<ElementRange> owned;
  for (const ElementRange& bucket : buckets)
    for (const ElementRange& range : place.owned(bucket)) {
      if (!owned.empty() && owned.back().end() == range.first) owned.back().count += range.count;
      else owned.push_back(range);
    }
  return owned;
}

}  // namespace

ShardedParallel::ShardedParallel(const ParallelConfig& config, const ShardGroups& groups, ParallelMemory memory,
                                 ParameterBuffer& parameters)
    : groups_(groups),
      memory_(std::move(memory)),
      parameters_(parameters),
      first_of_node_(groups.ranks.all.split(groups.group.node.is_root() ? 0 : 1)) {
  const GradientBuckets buckets(parameters.layout(), config);
  const ShardPlace place = make_shard_place(config.sums.options(), groups_.group, memory_.gradients);
  groups_.ranks.all.run_collectively([&] {
    parameters.own(owned_of(place, buckets.trained));
    block_squares_ = OwnedTensor("lockstep::block_squares", DType::f64,
                                 {std::max<std::int64_t>(1, array_blocks(parameters.trained_size()))});
    square_ = OwnedTensor("lockstep::gradient_square", DType::f64, {1});
    nonfinite_ = OwnedTensor("lockstep::nonfinite_gradients", DType::f64, {1});
    counts_ = OwnedTensor("lockstep::nonfinite_counts", DType::f64,
                          {std::max<std::int64_t>(1, std::ssize(parameters.layout().owned()))});
  });
  const ParameterDivision& division = parameters.windows().division;
  if (division.gradients) {
    auto windows = std::make_unique<ShardedGradientReducer>(config, groups_, memory_.gradients, parameters, buckets);
    gradient_windows_ = windows.get();
    reducer_ = std::move(windows);
  } else if (config.deterministic.present) {
    reducer_ = std::make_unique<DeterministicReducer>(groups_.ranks.all, config, parameters.gradients());
  } else {
    reducer_ = std::make_unique<BucketedReducer>(config, std::span<const AllReduceRow>(), groups_, memory_.gradients,
                                                 parameters.gradients(), buckets);
  }
  if (division.values) value_windows_.emplace(config, groups_.group, memory_, parameters, buckets.trained);
  else gather_.emplace(config, groups_.group, memory_, parameters, buckets.trained);
  traits_.ranks_of_same_part = &groups_.replicas.all;
  traits_.divides_sums = true;
  traits_.states_change_early = memory_.parameters != nullptr;
  traits_.early_sums = reducer_.get();
}

ShardedParallel::~ShardedParallel() = default;

void ShardedParallel::bind(const Updater& updater) {
  ParallelStrategy::bind(updater);
  optimizer().own_parts([this](const ExecSpace& space, const Tensor& numbers) { sum_over_owners(space, numbers); });
}

void ShardedParallel::enter(const ExecSpace& space, int time) {
  if (gradient_windows_) gradient_windows_->enter(space, time);
  if (value_windows_) value_windows_->enter(space, time);
}

PassHooks ShardedParallel::pass_hooks() {
  updates_ = optimizer().stream_steps();
  if (gather_) gather_->follow(updates_);
  else value_windows_->follow(updates_);
  return {.arrival = gather_ ? &*gather_ : nullptr, .traffic = gradient_windows_ || value_windows_ ? this : nullptr};
}

void ShardedParallel::finish_update(const ExecSpace& space) {
  if (updates_) updates_->await(space, 0);
  if (gather_) gather_->await(space, 0);
  else value_windows_->wait_for_node();  // one rank of a node updates the statistics that its ranks share
}

void ShardedParallel::wait_for_node() {
  if (gather_) gather_->wait_for_node();
  else value_windows_->wait_for_node();
}

void ShardedParallel::start_update(const ExecSpace& space) {
  if (gather_) gather_->start(space);
  else value_windows_->forget();
}

void ShardedParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (gather_) gather_->await(space, 0);
  reducer_->finish(space, meanwhile);
}

void ShardedParallel::sum_over_owners(const ExecSpace& space, const Tensor& numbers) {
  summed_.resize(static_cast<std::size_t>(numbers.count()));
  copy_to_host(space, numbers, summed_.data());
  const Timer timer;
  groups_.group.all.all_reduce_sum(summed_);
  exposed_seconds_ += timer.seconds();
  copy_from_host(space, summed_.data(), numbers);
}

Tensor ShardedParallel::gradient_square(const ExecSpace& space) {
  const Tensor& squares = block_squares_.get();
  fill_zero(space, squares);
  for (const ElementRange& range : parameters_.layout().owned())
    block_sums_of_squares(space, parameters_.owned().gradients(range),
                          {squares.as<double>() + range.first / array_block, DType::f64, {array_blocks(range.count)}});
  sum_over_owners(space, squares);
  add_block_sums(space, squares, square_.get());
  return square_.get();
}

Tensor ShardedParallel::nonfinite_gradients(const ExecSpace& space) {
  fill_zero(space, counts_.get());
  auto* count = counts_.get().as<double>();
  for (const ElementRange& range : parameters_.layout().owned())
    count_nonfinite(space, parameters_.owned().gradients(range), {count++, DType::f64, {1}});
  add_block_sums(space, counts_.get(), nonfinite_.get());
  sum_over_owners(space, nonfinite_.get());
  return nonfinite_.get();
}

/// All ranks' sums of this step are done, so no rank reads the parameters any more.
void ShardedParallel::update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) {
  optimizer().step(space, parameters_, step);
  optimizer().update_statistics(space, parameters_, step, statistics_factor);
  start_update(space);
}

void ShardedParallel::change_parameters(const ExecSpace& space, const std::function<void()>& change) {
  finish_update(space);
  wait_for_node();
  change();
  start_update(space);
  finish_update(space);
}

void ShardedParallel::share(const ExecSpace& space) {
  finish_update(space);
  if (groups_.count() > 1 && value_windows_ && !parameters_.owned().store())
    groups_.replicas.all.broadcast(space, parameters_.owned().values());
  const ElementRange shared = value_windows_ ? parameters_.layout().others() : ElementRange{0, parameters_.size()};
  if (!memory_.parameters || groups_.group.node.is_root()) {
    const Communicator& ranks = memory_.parameters ? first_of_node_ : groups_.ranks.all;
    if (shared.count > 0) ranks.broadcast(space, parameters_.values(shared));
    parameters_.round(space);
    space.fence("lockstep::sharded_parallel");
  }
  if (value_windows_) value_windows_->forget();
  wait_for_node();
  if (groups_.count() > 1) share_states(space, groups_.replicas.all, optimizer());
}

double ShardedParallel::take_exposed_seconds() {
  const double gathers = gather_ ? gather_->take_exposed_seconds() : value_windows_->take_exposed_seconds();
  return std::exchange(exposed_seconds_, 0.0) + reducer_->take_exposed_seconds() + gathers;
}

}  // namespace lockstep
