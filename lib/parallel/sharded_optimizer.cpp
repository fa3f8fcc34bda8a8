// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded_optimizer.hpp"

#include <algorithm>
#include <utility>

#include "base/timer.hpp"
#include "comm/collective/make_all_reduce.hpp"
#include "comm/collective/node_all_reduce.hpp"
#include "comm/spin_backoff.hpp"
#include "ops/reduction.hpp"
#include "parallel/bucketed_reducer.hpp"
#include "parallel/buckets.hpp"
#include "parallel/deterministic_reducer.hpp"

namespace lockstep {
namespace {

std::vector<ParameterRange> owned_of(const ShardPlace& place, const std::vector<Stretch>& buckets) {
  std::vector<ParameterRange> owned;
  for (const Stretch& bucket : buckets)
    for (const Stretch& stretch : place.owned(bucket.first, bucket.count())) {
      if (!owned.empty() && owned.back().first + owned.back().count == stretch.first)
        owned.back().count += stretch.count();
      else owned.push_back({stretch.first, stretch.count()});
    }
  return owned;
}

/// Blocks are owned as a whole.
ParallelConfig with_whole_blocks(ParallelConfig config, std::size_t element_bytes) {
  const double block_mb = 1e-6 * static_cast<double>(array_block * static_cast<std::int64_t>(element_bytes));
  config.bucket_mb = std::max(config.bucket_mb, block_mb);
  return config;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(const ParallelConfig& given, const Topology& topology, ParallelMemory memory,
                                   ParameterBuffer& parameters)
    : topology_(topology),
      memory_(std::move(memory)),
      parameters_(parameters),
      first_of_node_(topology.all.split(topology.node.is_root() ? 0 : 1)),
      block_squares_("lockstep::block_squares", DType::f64,
                     {std::max<std::int64_t>(1, array_blocks(parameters.trained_size()))}),
      square_("lockstep::gradient_square", DType::f64, {1}),
      nonfinite_("lockstep::nonfinite_gradients", DType::f64, {1}) {
  const std::size_t element = size_of(parameters.dtype());
  const ParallelConfig config = with_whole_blocks(given, element);
  buckets_ = cut_into_buckets(0, parameters.trained_size(), config.bucket_mb, element);
  parameters.layout().own(owned_of(make_shard_place(config, topology_, memory_.gradients), buckets_));
  counts_ = OwnedTensor("lockstep::nonfinite_counts", DType::f64,
                        {std::max<std::int64_t>(1, std::ssize(parameters.layout().owned()))});
  if (config.deterministic.present)
    reducer_ = std::make_unique<DeterministicReducer>(topology_.all, config.deterministic.shards,
                                                      parameters.gradients());
  else
    reducer_ = std::make_unique<BucketedReducer>(config, std::span<const AllReduceRow>(), topology_, memory_.gradients,
                                                 parameters.gradients(), parameters.trained_size());
  void* values = parameters.values().data;
  if constexpr (memory_is_separate) {
    values_on_host_ = Kokkos::View<std::byte*, StagingSpace>("lockstep::values_on_host",
                                                             parameters.trained_values().bytes());
    values = values_on_host_.data();
  }
  gather_ = make_all_gather(config, topology_, memory_.flags, {parameters.dtype(), values});
  if (memory_.flags) node_barrier_ = node_all_gather(*memory_.flags, 0, nullptr);
  if (memory_.parameters && topology_.one_node()) gathered_ = {{0, parameters.trained_size()}};
  else gathered_ = buckets_;
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  finish_update(space);
  reducer_->finish(space, meanwhile);
}

void ShardedOptimizer::sum_over_ranks(const ExecSpace& space, const Tensor& numbers) {
  summed_.resize(static_cast<std::size_t>(numbers.count()));
  copy_to_host(space, numbers, summed_.data());
  const Timer timer;
  topology_.all.all_reduce_sum(summed_);
  exposed_seconds_ += timer.seconds();
  copy_from_host(space, summed_.data(), numbers);
}

Tensor ShardedOptimizer::gradient_square(const ExecSpace& space) {
  const Tensor& squares = block_squares_.get();
  fill_zero(space, squares);
  for (const ParameterRange& range : parameters_.layout().owned())
    block_sums_of_squares(space, parameters_.gradients(range),
                          {squares.as<double>() + range.first / array_block, DType::f64, {array_blocks(range.count)}});
  sum_over_ranks(space, squares);
  add_block_sums(space, squares, square_.get());
  return square_.get();
}

Tensor ShardedOptimizer::nonfinite_gradients(const ExecSpace& space) {
  fill_zero(space, counts_.get());
  auto* count = counts_.get().as<double>();
  for (const ParameterRange& range : parameters_.layout().owned())
    count_nonfinite(space, parameters_.gradients(range), {count++, DType::f64, {1}});
  add_block_sums(space, counts_.get(), nonfinite_.get());
  sum_over_ranks(space, nonfinite_.get());
  return nonfinite_.get();
}

/// All ranks' sums of this step are done, so nobody reads the parameters any more.
void ShardedOptimizer::update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step,
                              double statistics_factor) {
  if (!optimizer.sum_over_owners())
    optimizer.own_parts([this](const ExecSpace& where, const Tensor& numbers) { sum_over_ranks(where, numbers); });
  optimizer.step(space, parameters_, step);
  if (!memory_.parameters || topology_.node.is_root())
    parameters_.update_statistics(space, statistics_factor, &step->left_out);
  start_gather(space);
}

void ShardedOptimizer::change_parameters(const ExecSpace& space, const std::function<void()>& change) {
  finish_update(space);
  wait_for_node();
  change();
  start_gather(space);
  finish_update(space);
}

std::byte* ShardedOptimizer::on_host(std::int64_t first) const {
  return values_on_host_.data() + static_cast<std::size_t>(first) * size_of(parameters_.dtype());
}

/// Buckets travel in the order in which a forward pass needs them: the network's first layers stand last.
void ShardedOptimizer::start_gather(const ExecSpace& space) {
  if constexpr (memory_is_separate)
    for (const ParameterRange& range : parameters_.layout().owned())
      copy_to_host(space, parameters_.values(range), on_host(range.first));
  else space.fence("lockstep::sharded_optimizer");
  on_their_way_ = gathered_.size();
  if (rounds_together()) finish_update(space);
  else have_arrived(space, 0);
}

/// Whether what a node's ranks have in common comes from other nodes without its copy in 16 bits.
bool ShardedOptimizer::rounds_together() const {
  return memory_.parameters && !topology_.one_node() && parameters_.rounded();
}

bool ShardedOptimizer::have_arrived(const ExecSpace& space, std::int64_t first) {
  for (; on_their_way_ > 0; --on_their_way_) {
    const Stretch& bucket = gathered_[on_their_way_ - 1];
    if (!std::exchange(running_, true)) gather_->start(bucket.first, bucket.count());
    if (!gather_->advance()) return bucket.end <= first;
    running_ = false;
    arrive(space, bucket);
  }
  return true;
}

void ShardedOptimizer::await(const ExecSpace& space, std::int64_t first) {
  const Timer timer;
  wait_until([&] { return have_arrived(space, first); });
  exposed_seconds_ += timer.seconds();
}

void ShardedOptimizer::arrive(const ExecSpace& space, const Stretch& bucket) {
  if constexpr (memory_is_separate)
    copy_from_host(space, on_host(bucket.first), parameters_.values({bucket.first, bucket.count()}));
  if (!memory_.parameters) return parameters_.round(space, {bucket.first, bucket.count()});
  if (!rounds_together()) return;
  const Stretch own = slice_of_rank(bucket.count(), topology_.node.rank(), topology_.node.size());
  parameters_.round(space, {bucket.first + own.first, own.count()});
  space.fence("lockstep::sharded_optimizer");
  wait_for_node();
}

void ShardedOptimizer::wait_for_node() {
  if (!node_barrier_) return;
  node_barrier_->start(0, 0);
  wait_until([&] { return node_barrier_->advance(); });
}

void ShardedOptimizer::share(const ExecSpace& space, Optimizer&) {
  finish_update(space);
  if (!memory_.parameters) {
    topology_.all.broadcast(space, parameters_.values());
    parameters_.round(space);
  } else {
    if (topology_.node.is_root()) {
      first_of_node_.broadcast(space, parameters_.values());
      parameters_.round(space);
      space.fence("lockstep::sharded_optimizer");
    }
    wait_for_node();
  }
}

double ShardedOptimizer::take_exposed_seconds() {
  return std::exchange(exposed_seconds_, 0.0) + reducer_->take_exposed_seconds();
}

}  // namespace lockstep
