// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/bucketed_reducer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "comm/surviving_ranks.hpp"
#include "core/tensor.hpp"
#include "parallel/reducers/gradient_reducer.hpp"

namespace lockstep {

/// A thread that runs the sums, bucket by bucket, as they are allowed.
class BucketedReducer::Helper {
 public:
  Helper(const std::vector<Bucket>& buckets, const ExecSpace& space)
      : buckets_(buckets), thread_([this, space] {
          bind_thread(space);
          try {
            work();
          } catch (...) {  // RankLost, or an error of MPI
            const std::lock_guard lock(mutex_);
            failure_ = std::current_exception();
            changed_.notify_all();
          }
        }) {}
  /// After a failure, a sum that never ends may be under way.
  ~Helper() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Allows the sums of the first `count` buckets, which are final.
  void allow(std::size_t count) {
    {
      const std::lock_guard lock(mutex_);
      allowed_ = count;
    }
    changed_.notify_all();
  }
  std::size_t summed() {
    const std::lock_guard lock(mutex_);
    return summed_;
  }
  /// Waits until all buckets are summed, and begins anew.
  void finish() {
    const WaitsForRanks waits;
    std::unique_lock lock(mutex_);
    allowed_ = buckets_.size();
    changed_.notify_all();
    changed_.wait(lock, [this] { return summed_ == buckets_.size() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    allowed_ = summed_ = 0;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || summed_ < allowed_; });
      if (stopping_) return;
      const Bucket bucket = buckets_[summed_];
      heartbeat().sum(static_cast<std::int32_t>(summed_));
      lock.unlock();
      wait_until([&] { return bucket.has_arrived() || stopping_; });
      if (stopping_) return;
      bucket.start();
      wait_until([&] { return bucket.sum->advance() || stopping_; });
      lock.lock();
      ++summed_;
      changed_.notify_all();
    }
  }

  const std::vector<Bucket>& buckets_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::size_t allowed_ = 0, summed_ = 0;
  std::exception_ptr failure_;  ///< after which no sum ends
  std::atomic<bool> stopping_ = false;
  std::thread thread_;  // last member: starts when the others are there
};

/// Tries each way of overlapping for some steps, and finds the fastest.
class BucketedReducer::Trial {
 public:
  /// Call when a step has ended. Returns the way for the next step, and whether that is final. Collective.
  std::pair<Overlap, bool> next(const Communicator& ranks) {
    const std::size_t way = steps_ / each;
    // The first step sets up what all others find; the first step of each way begins with what the way before has left.
    if (steps_ % each != 0) seconds_[way] = std::min(seconds_[way], timer_.seconds());
    timer_.restart();
    if (++steps_ < each * ways_) return {ways[steps_ / each], false};
    ranks.all_reduce_sum(seconds_);
    return {ways[static_cast<std::size_t>(std::ranges::min_element(seconds_) - seconds_.begin())], true};
  }

  static constexpr std::array<Overlap, 3> ways{Overlap::none, Overlap::poll, Overlap::thread};

 private:
  static constexpr std::size_t each = 5;  // steps

  const std::size_t ways_ = mpi_serves_threads() ? ways.size() : ways.size() - 1;
  std::size_t steps_ = 0;
  std::array<double, ways.size()> seconds_{1e9, 1e9, 1e9};
  Timer timer_;
};

BucketedReducer::BucketedReducer(const ParallelConfig& config, std::span<const AllReduceRow> measured,
                                 const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                 const Tensor& gradients, const GradientBuckets& buckets,
                                 std::unique_ptr<Collective> compressed)
    : ranks_(groups.ranks.all), gradients_(gradients) {
  if (ranks_.size() == 1) return;
  host_ = static_cast<std::byte*>(gradients.data);
  if constexpr (memory_is_separate) {
    if (!memory) staging_ = staging_memory("lockstep::gradients_on_host", gradients.bytes());
    host_ = memory ? memory->part(groups.group.node.rank()) : staging_.data();
    if (memory) pinned_ = PinnedMemory(host_, gradients.bytes());
    streams_ = Streams{space_beside(ExecSpace()), space_beside(ExecSpace())};
  }
  if (config.sums.overlap == Overlap::thread && !mpi_serves_threads())
    throw SharedError(
        ExitStatus::bad_deck,
        "parallel.overlap: this MPI library serves only one thread (it does not provide MPI_THREAD_SERIALIZED); use "
        "poll");
  const ReduceBuffer buffer{gradients.dtype, host_};
  SumOptions options = config.sums.options();
  if (compressed) sum_ = std::move(compressed);
  else
    sum_ = config.sharding.divides() ? make_reduce_scatter(options, groups, memory, buffer)
                                     : make_all_reduce(options, measured, groups, memory, buffer);
  add_buckets(buckets.trained, sum_.get());
  if (!buckets.statistics.empty()) {
    options.wire = DType::f32;
    exact_sum_ = make_all_reduce(options, measured, groups, memory, buffer);
    add_buckets(buckets.statistics, exact_sum_.get());
  }
  const bool automatic = config.sums.overlap == Overlap::automatic;
  // Sums on one node are done by the cores that compute: there is nothing to hide them behind.
  if (automatic && (memory_is_separate || !groups.ranks.one_node())) trial_ = std::make_unique<Trial>();
  use(automatic ? Trial::ways[0] : config.sums.overlap);
}

void BucketedReducer::add_buckets(std::span<const ElementRange> buckets, Collective* sum) {
  for (const ElementRange& bucket : buckets) buckets_.push_back({bucket.first, bucket.end(), sum, std::nullopt});
}

BucketedReducer::~BucketedReducer() = default;

void BucketedReducer::use(Overlap overlap) {
  overlap_ = overlap;
  if (overlap != Overlap::thread) helper_.reset();
  else if (!helper_) helper_ = std::make_unique<Helper>(buckets_, ExecSpace());
}

void BucketedReducer::ready(const ExecSpace& space, std::int64_t end) {
  ready_ = end;
  if (!sum_) return;
  const std::size_t before = available_;
  std::size_t last = available_;
  while (last < buckets_.size() && buckets_[last].end <= end) ++last;
  make_available(space, last);
  if (memory_is_separate && overlap_ == Overlap::none && available_ > before) outlast_kernels(space, [] {});
  const Timer timer;
  if constexpr (!memory_is_separate)
    if (available_ > before) space.fence("lockstep::gradient_reducer");
  switch (overlap_) {
    case Overlap::none: complete(std::min(available_, buckets_.size() - 1), [] {}); break;  // `finish` does the last
    case Overlap::poll: advance(available_); break;
    case Overlap::thread:
      if (available_ > before) helper_->allow(available_);
      break;
    case Overlap::automatic: break;
  }
  exposed_seconds_ += timer.seconds();
}

/// The host has started all kernels of the backward pass, and sums are all that is left for it to do while they run.
void BucketedReducer::gradient_sum_done(const ExecSpace& space) {
  if (!memory_is_separate || !sum_) return;
  make_available(space, buckets_.size());
  if (helper_) helper_->allow(available_);
  if (overlap_ == Overlap::poll) outlast_kernels(space, [this] { advance(available_); });
}

std::int64_t BucketedReducer::summed() const {
  if (!sum_) return ready_;
  const std::size_t summed = helper_ ? helper_->summed() : next_ - (running_ ? 1 : 0);
  return summed > 0 ? buckets_[summed - 1].end : 0;
}

void BucketedReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (!sum_) return;
  gradient_sum_done(space);  // not called yet on a rank without examples
  wait_for_kernels(space);
  const Timer timer;
  if constexpr (!memory_is_separate) space.fence("lockstep::gradient_reducer");
  if (helper_) {
    helper_->finish();
    for (const Bucket& bucket : buckets_) copy_back(bucket);
  } else {
    complete(buckets_.size(), meanwhile);
  }
  if (streams_) wait_for(space, StreamEvent(streams_->to_device));
  exposed_seconds_ += timer.seconds();
  available_ = next_ = 0;
  heartbeat().sum(-1);
  if (!trial_) return;
  const auto [overlap, chosen] = trial_->next(ranks_);
  use(overlap);
  if (chosen) trial_.reset();
}

/// Marks the buckets before `last` as final; those of a device begin to be copied to the host.
void BucketedReducer::make_available(const ExecSpace& space, std::size_t last) {
  if (streams_ && last > available_) wait_for(streams_->to_host, StreamEvent(space));
  for (; available_ < last; ++available_) copy_out(buckets_[available_]);
}

void BucketedReducer::copy_out(Bucket& bucket) {
  if (!streams_) return;
  start_copy_to_host(streams_->to_host, gradients_of(bucket), host_ + bytes_before(bucket));
  bucket.on_host.emplace(streams_->to_host);
}

void BucketedReducer::copy_back(const Bucket& bucket) {
  if (streams_) start_copy_from_host(streams_->to_device, host_ + bytes_before(bucket), gradients_of(bucket));
}

std::size_t BucketedReducer::bytes_before(const Bucket& bucket) const {
  return static_cast<std::size_t>(bucket.first) * size_of(gradients_.dtype);
}

Tensor BucketedReducer::gradients_of(const Bucket& bucket) const {
  return flat_part(gradients_, {bucket.first, bucket.end - bucket.first});
}

/// Begins sums of the buckets before `last`, and goes on with them as far as possible without waiting.
void BucketedReducer::advance(std::size_t last) {
  for (;;) {
    if (running_) {
      if (!buckets_[next_ - 1].sum->advance()) return;
      running_ = false;
      copy_back(buckets_[next_ - 1]);
    }
    if (next_ == last || !buckets_[next_].has_arrived()) return;
    heartbeat().sum(static_cast<std::int32_t>(next_));
    buckets_[next_++].start();
    running_ = true;
  }
}

void BucketedReducer::complete(std::size_t last, const std::function<void()>& meanwhile) {
  SpinBackoff backoff;
  for (std::size_t before = next_;; before = next_) {
    advance(last);
    if (!running_ && next_ == last) return;
    meanwhile();
    if (next_ == before) backoff.pause();
    else backoff.reset();
  }
}

double BucketedReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
