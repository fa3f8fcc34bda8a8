// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded/sharded_gradient_reducer.hpp"

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "comm/spin_backoff.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {

ShardedGradientReducer::ShardedGradientReducer(const ParallelConfig& config, const ShardGroups& groups,
                                               const std::optional<NodeMemory>& memory,
                                               const ParameterBuffer& parameters, const GradientBuckets& buckets)
    : parameters_(parameters),
      waits_(config.sums.overlap == GradientSumConfig::Overlap::none ||
             (config.sums.overlap == GradientSumConfig::Overlap::automatic && groups.ranks.one_node())),
      windows_("lockstep::gradients_on_host", parameters.gradients()) {
  const ReduceBuffer buffer{parameters.gradients().dtype, windows_.data()};
  SumOptions options = config.sums.options();
  sum_ = make_reduce_scatter(options, groups.group, memory, buffer);
  if (groups.count() > 1) between_groups_ = make_sum_between_groups(options, groups, buffer);
  const ShardPlace place = make_shard_place(options, groups.group, memory);
  for (const ElementRange& bucket : buckets.trained)
    buckets_.push_back({bucket, sum_.get(), place.owned(bucket), between_groups_.get()});
  if (const ElementRange statistics = parameters.layout().statistics(); statistics.count > 0) {
    options.wire = DType::f32;
    exact_sum_ = make_all_reduce(options, {}, groups, memory, buffer);
    for (const ElementRange& bucket : buckets.statistics)
      buckets_.push_back({bucket, exact_sum_.get(), {bucket.within(statistics)}, nullptr});
  }
  turns_ = window_turns(parameters.windows(), buckets);
  std::int64_t end = 0;
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.kind != ParameterSpec::Kind::trained) break;
    if (parameter.range.first > end) gaps_.push_back({end, parameter.range.first - end});
    end = parameter.range.end();
  }
  if (parameters.trained_size() > end) gaps_.push_back({end, parameters.trained_size() - end});
}

void ShardedGradientReducer::begin_step(const BatchPlan& batch) {
  const auto sums = std::ranges::count_if(batch.micro_batches, &MicroBatch::ends);
  last_ = static_cast<std::size_t>(sums - 1) * buckets_.size();
}

void ShardedGradientReducer::enter(const ExecSpace& space, int time) {
  for (const WindowTurn& turn : turns_) {
    if (turn.time != time || (turn.of_micro_batch_before && before_ == 0)) continue;
    complete(space, before_ + turn.buckets - (turn.of_micro_batch_before ? buckets_.size() : 0), [] {});
  }
  advance(space);
}

void ShardedGradientReducer::ready(const ExecSpace& space, std::int64_t end) {
  const std::size_t before = available_;
  while (available_ < before_ + buckets_.size() && buckets_[available_ - before_].range.end() <= end) ++available_;
  if (available_ == before) return;
  const std::int64_t first = buckets_[before - before_].range.first;
  for (const ElementRange& gap : gaps_)
    if (const ElementRange part = gap.within({first, end - first}); part.count > 0)
      fill_zero(space, parameters_.gradients(part));
  if constexpr (!memory_is_separate) space.fence("lockstep::sharded_gradient_reducer");
  if (waits_) complete(space, available_, [] {});
  else advance(space);
}

void ShardedGradientReducer::gradient_sum_done(const ExecSpace&) { before_ = available_; }

void ShardedGradientReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  complete(space, available_, meanwhile);
  heartbeat().sum(-1);
  before_ = available_ = next_ = 0;
}

std::int64_t ShardedGradientReducer::summed() const {
  const std::size_t summed = next_ - (running_ ? 1 : 0);
  return summed > before_ ? buckets_[summed - before_ - 1].range.end() : 0;
}

void ShardedGradientReducer::advance(const ExecSpace& space) {
  for (;;) {
    if (running_) {
      if (!running_->advance()) return;
      end_sum(space);
    } else {
      if (next_ == available_) return;
      const std::size_t number = next_++ % buckets_.size();
      heartbeat().sum(static_cast<std::int32_t>(number));
      start(space, buckets_[number]);
    }
  }
}

void ShardedGradientReducer::complete(const ExecSpace& space, std::size_t last,
                                      const std::function<void()>& meanwhile) {
  const Timer timer;
  wait_until([&] {
    advance(space);
    meanwhile();
    return next_ > last || (next_ == last && !running_);
  });
  exposed_seconds_ += timer.seconds();
}

void ShardedGradientReducer::start(const ExecSpace& space, const Bucket& bucket) {
  if constexpr (memory_is_separate) windows_.to_host(space, parameters_.gradients(bucket.range));  // else see ready()
  bucket.sum->start(parameters_.windows().gradient_place(bucket.range.first), bucket.range.count);
  running_ = bucket.sum;
  piece_ = 0;
}

/// Call when the running sum is over: the owned ranges of its bucket have arrived, or are summed between groups, one
/// after the other.
void ShardedGradientReducer::end_sum(const ExecSpace& space) {
  const std::size_t number = next_ - 1;
  const Bucket& bucket = buckets_[number % buckets_.size()];
  const bool first = number < buckets_.size();
  if (bucket.between_groups && number >= last_) {
    if (piece_ > 0) {
      const ElementRange range = bucket.owned[piece_ - 1];
      copy(space, from_host(space, range), parameters_.owned().gradients(range));
    }
    if (piece_ < bucket.owned.size()) return start_between_groups(space, bucket, first);
  } else {
    for (const ElementRange& range : bucket.owned) {
      const Tensor sum = from_host(space, range), all = parameters_.owned().gradients(range);
      if (first) copy(space, sum, all);
      else accumulate(space, sum, all);
    }
  }
  running_ = nullptr;
  // The window may be written next, also by sums of other ranks.
  if constexpr (!memory_is_separate) space.fence("lockstep::sharded_gradient_reducer");
}

/// Starts the sum of the next owned range of a bucket, after adding its sums of the micro-batches before. `first`:
/// there are none.
void ShardedGradientReducer::start_between_groups(const ExecSpace& space, const Bucket& bucket, bool first) {
  const ElementRange range = bucket.owned[piece_++];
  if (!first) {
    const Tensor sum = from_host(space, range);
    accumulate(space, parameters_.owned().gradients(range), sum);
    windows_.to_host(space, sum);
  }
  bucket.between_groups->start(parameters_.windows().gradient_place(range.first), range.count);
  running_ = bucket.between_groups;
}

/// Returns gradients in their window, copied from where the host has summed them.
Tensor ShardedGradientReducer::from_host(const ExecSpace& space, ElementRange range) const {
  const Tensor sum = parameters_.gradients(range);
  windows_.from_host(space, sum);
  return sum;
}

double ShardedGradientReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
