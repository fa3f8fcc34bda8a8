// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/timeline.hpp"

#include <algorithm>

namespace lockstep {
namespace {

using Overlap = GradientSumConfig::Overlap;

/// The step waits for each bucket as soon as it is final, except the last one, which is left to the end.
double one_after_the_other(std::span<const ComputedPart> backward, std::span<const ExchangeCost> sums) {
  double now = 0;
  for (const ComputedPart& part : backward) now += part.seconds;
  for (const ExchangeCost& sum : sums) now += sum.seconds;
  return now;
}

/// Another thread works on sums all the time. On hosts it takes the part of the core's time in which it adds.
class Concurrent {
 public:
  Concurrent(std::span<const ExchangeCost> sums, bool has_device) : sums_(sums), has_device_(has_device) {}

  void compute(const ComputedPart& part) {
    double left = part.seconds;
    while (left > 0) {
      if (sum_left_ <= 0 && !begin_next()) break;
      const double dt = speed_ > 0 ? std::min(sum_left_, left / speed_) : sum_left_;
      left -= dt * speed_;
      sum_left_ -= dt;
      now_ += dt;
    }
    now_ += std::max(0.0, left);
    final_ = part.buckets;
  }
  double finish() {
    final_ = sums_.size();
    do now_ += std::max(0.0, sum_left_);
    while (begin_next());
    return now_;
  }

 private:
  bool begin_next() {
    sum_left_ = 0;
    if (next_ == final_) return false;
    const ExchangeCost& sum = sums_[next_++];
    sum_left_ = sum.seconds;
    speed_ = has_device_ || sum.seconds <= 0 ? 1 : 1 - sum.adding / sum.seconds;
    return true;
  }

  std::span<const ExchangeCost> sums_;
  bool has_device_;
  std::size_t next_ = 0, final_ = 0;
  double now_ = 0, sum_left_ = 0;
  double speed_ = 1;  ///< speed of the computation during the running sum
};

/// The computing core looks for messages between layers, and adds; after the backward pass it does nothing else.
class Polled {
 public:
  explicit Polled(std::span<const ExchangeCost> sums) : sums_(sums) {}

  void compute(const ComputedPart& part) {
    now_ += part.seconds;
    while (advance(part.buckets)) {
    }
  }
  double finish() {
    while (next_ < sums_.size() || rounds_left_ > 0) {
      if (rounds_left_ > 0) now_ = std::max(now_, round_end_);
      advance(sums_.size());
    }
    return now_;
  }

 private:
  /// Ends a round that is over by now, or begins a bucket. Returns whether there was anything to do.
  bool advance(std::size_t final) {
    if (rounds_left_ > 0) {
      if (now_ < round_end_) return false;
      now_ += adding_;
      if (--rounds_left_ > 0) round_end_ = now_ + round_;
      return true;
    }
    if (next_ == std::min(final, sums_.size())) return false;
    const ExchangeCost& sum = sums_[next_++];
    rounds_left_ = std::max<std::int64_t>(1, sum.rounds);
    round_ = (sum.seconds - sum.adding) / static_cast<double>(rounds_left_);
    adding_ = sum.adding / static_cast<double>(rounds_left_);
    round_end_ = now_ + round_;
    return true;
  }

  std::span<const ExchangeCost> sums_;
  std::size_t next_ = 0;
  std::int64_t rounds_left_ = 0;  ///< rounds left of the bucket under way
  double now_ = 0, round_end_ = 0, round_ = 0, adding_ = 0;
};

}  // namespace

double sums_end(std::span<const ComputedPart> backward, std::span<const ExchangeCost> sums, const Engine& engine) {
  double computed = 0;
  for (const ComputedPart& part : backward) computed += part.seconds;
  double end = 0;
  if (engine.overlap == Overlap::none) {
    end = one_after_the_other(backward, sums);
  } else if (engine.overlap == Overlap::thread || engine.has_device) {
    Concurrent concurrent(sums, engine.has_device);
    for (const ComputedPart& part : backward) concurrent.compute(part);
    end = concurrent.finish();
  } else {
    Polled polled(sums);
    for (const ComputedPart& part : backward) polled.compute(part);
    end = polled.finish();
  }
  return std::max(end, computed + engine.vote_seconds);
}

}  // namespace lockstep
