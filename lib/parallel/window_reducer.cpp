// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/window_reducer.hpp"

#include <utility>

#include "base/heartbeat.hpp"
#include "base/timer.hpp"
#include "comm/spin_backoff.hpp"
#include "ops/elementwise.hpp"

namespace lockstep {

WindowReducer::WindowReducer(const ParallelConfig& config, const ShardGroups& groups,
                             const std::optional<NodeMemory>& memory, const ParameterBuffer& parameters,
                             const GradientBuckets& buckets)
    : parameters_(parameters),
      waits_(config.overlap == ParallelConfig::Overlap::none ||
             (config.overlap == ParallelConfig::Overlap::automatic && groups.ranks.one_node())) {
  const Tensor windows = parameters.gradients();
  host_ = static_cast<std::byte*>(windows.data);
  if constexpr (memory_is_separate) {
    staging_ = Kokkos::View<std::byte*, StagingSpace>("lockstep::gradients_on_host", windows.bytes());
    host_ = staging_.data();
  }
  const ReduceBuffer buffer{windows.dtype, host_};
  sum_ = make_reduce_scatter(config, groups, memory, buffer);
  add_buckets(buckets.trained, sum_.get(), parameters.layout().owned());
  if (const ParameterRange statistics = parameters.layout().statistics(); statistics.count > 0) {
    ParallelConfig whole = config;
    whole.wire = ParallelConfig::Wire::fp32;
    exact_sum_ = make_all_reduce(whole, {}, groups, memory, buffer);
    add_buckets(buckets.statistics, exact_sum_.get(), {statistics});
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

void WindowReducer::add_buckets(const std::vector<Stretch>& buckets, Collective* sum,
                                const std::vector<ParameterRange>& owned) {
  for (const Stretch& bucket : buckets) {
    Bucket& added = buckets_.emplace_back(Bucket{{bucket.first, bucket.count()}, sum, {}});
    for (const ParameterRange& range : owned)
      if (const ParameterRange part = range.within(added.range); part.count > 0) added.owned.push_back(part);
  }
}

void WindowReducer::enter(const ExecSpace& space, int time) {
  for (const WindowTurn& turn : turns_) {
    if (turn.time != time || (turn.of_micro_batch_before && before_ == 0)) continue;
    complete(space, before_ + turn.buckets - (turn.of_micro_batch_before ? buckets_.size() : 0), [] {});
  }
  advance(space);
}

void WindowReducer::ready(const ExecSpace& space, std::int64_t end) {
  const std::size_t before = available_;
  while (available_ < before_ + buckets_.size() && buckets_[available_ - before_].range.end() <= end) ++available_;
  if (available_ == before) return;
  const std::int64_t first = buckets_[before - before_].range.first;
  for (const ParameterRange& gap : gaps_)
    if (const ParameterRange part = gap.within({first, end - first}); part.count > 0)
      fill_zero(space, parameters_.gradients(part));
  if constexpr (!memory_is_separate) space.fence("lockstep::window_reducer");
  if (waits_) complete(space, available_, [] {});
  else advance(space);
}

void WindowReducer::shard_done(const ExecSpace&) { before_ = available_; }

void WindowReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  complete(space, available_, meanwhile);
  heartbeat().sum(-1);
  before_ = available_ = next_ = 0;
}

std::int64_t WindowReducer::summed() const {
  const std::size_t summed = next_ - (running_ ? 1 : 0);
  return summed > before_ ? buckets_[summed - before_ - 1].range.end() : 0;
}

void WindowReducer::advance(const ExecSpace& space) {
  for (;;) {
    if (running_) {
      const std::size_t number = next_ - 1;
      const Bucket& bucket = buckets_[number % buckets_.size()];
      if (!bucket.sum->advance()) return;
      running_ = false;
      arrive(space, bucket, number < buckets_.size());
    }
    if (next_ == available_) return;
    const std::size_t number = next_++ % buckets_.size();
    heartbeat().sum(static_cast<std::int32_t>(number));
    start(space, buckets_[number]);
    running_ = true;
  }
}

void WindowReducer::complete(const ExecSpace& space, std::size_t last, const std::function<void()>& meanwhile) {
  const Timer timer;
  wait_until([&] {
    advance(space);
    meanwhile();
    return next_ > last || (next_ == last && !running_);
  });
  exposed_seconds_ += timer.seconds();
}

void WindowReducer::start(const ExecSpace& space, const Bucket& bucket) {
  const std::int64_t place = parameters_.windows().gradient_place(bucket.range.first);
  if constexpr (memory_is_separate) {
    const Tensor gradients = parameters_.gradients(bucket.range);
    copy_to_host(space, gradients, host_ + static_cast<std::size_t>(place) * size_of(gradients.dtype));
  }
  bucket.sum->start(place, bucket.range.count);
}

/// `first`: of the step's micro-batches.
void WindowReducer::arrive(const ExecSpace& space, const Bucket& bucket, bool first) {
  for (const ParameterRange& range : bucket.owned) {
    const Tensor sum = parameters_.gradients(range), all = parameters_.owned().gradients(range);
    if constexpr (memory_is_separate) {
      const auto place = static_cast<std::size_t>(parameters_.windows().gradient_place(range.first));
      copy_from_host(space, host_ + place * size_of(sum.dtype), sum);
    }
    if (first) copy(space, sum, all);
    else accumulate(space, sum, all);
  }
  // The window may be written next, by other ranks' sums, too.
  if constexpr (!memory_is_separate) space.fence("lockstep::window_reducer");
}

double WindowReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
