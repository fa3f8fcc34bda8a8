// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/timeline.hpp"

#include <algorithm>
#include <numeric>

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

void scale_to(std::span<double> seconds, double all) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  for (double& one : seconds) one *= sum > 0 ? all / sum : 0;
}

/// Number of buckets of gradients that are final after each time.
std::vector<std::size_t> final_buckets(const StepTraffic& exchange) {
  const auto times = static_cast<std::size_t>(exchange.windows.times);
  std::vector<std::size_t> final(times, 0);
  const std::size_t first = times - std::min(times, exchange.points.size());
  for (std::size_t i = 0; first + i < times; ++i)
    final[first + i] = static_cast<std::size_t>(std::ranges::count_if(
        exchange.buckets, [&](const ElementRange& bucket) { return bucket.end() <= exchange.points[i].elements; }));
  return final;
}

/// Goes through one rank's step.
class Walk {
 public:
  explicit Walk(const DividedStep& step)
      : step_(step),
        exchange_(step.exchange),
        lanes_(step.has_device),
        units_(exchange_.windows),
        final_(final_buckets(exchange_)),
        waits_(step.overlap == GradientSumConfig::Overlap::none) {}

  double exposed() {
    for (const ExchangeCost& gathered : exchange_.gathers) lanes_.begin(Lanes::gathers, gathered);
    compute(step_.other);
    for (std::size_t i = 0; i < step_.micro_batches.size(); ++i) micro_batch(i);
    lanes_.wait_for(Lanes::gathers, lanes_.begun(Lanes::gathers));
    lanes_.wait_for(Lanes::sums, lanes_.begun(Lanes::sums));
    return lanes_.now() - computed_;
  }

 private:
  void compute(double seconds) {
    lanes_.compute(seconds);
    computed_ += seconds;
  }

  void micro_batch(std::size_t number) {
    const std::size_t before = lanes_.begun(Lanes::sums);
    for (int time = 0; time < exchange_.windows.times; ++time) {
      free_windows(time, number, before);
      if (exchange_.divides_values()) bring(time);
      else if (number == 0 && time <= exchange_.windows.loss_time) {
        lanes_.look(Lanes::gathers);
        lanes_.wait_for(Lanes::gathers, exchange_.awaited[static_cast<std::size_t>(time)]);
      }
      compute(step_.micro_batches[number][static_cast<std::size_t>(time)]);
      if (exchange_.divides_gradients())
        sum(before + final_[static_cast<std::size_t>(time)], number + 1 == step_.micro_batches.size());
    }
  }

  /// Waits until gradients of this time may be written.
  void free_windows(int time, std::size_t number, std::size_t before) {
    for (const WindowTurn& turn : exchange_.turns)
      if (turn.time == time && (number > 0 || !turn.of_micro_batch_before))
        lanes_.wait_for(Lanes::sums,
                        before + turn.buckets - (turn.of_micro_batch_before ? exchange_.buckets.size() : 0));
    lanes_.look(Lanes::sums);
  }

  void bring(int time) {
    units_.enter(time, [&](std::size_t unit) {
      lanes_.begin(Lanes::gathers, exchange_.units[unit]);
      brought_.push_back(unit);
    });
    lanes_.look(Lanes::gathers);
    std::size_t needed = brought_.size();
    while (needed > lanes_.over(Lanes::gathers) && !units_.is_needed(brought_[needed - 1], time)) --needed;
    lanes_.wait_for(Lanes::gathers, needed);
  }

  void sum(std::size_t end, bool last) {
    for (std::size_t next = lanes_.begun(Lanes::sums); next < end; ++next) {
      const std::size_t bucket = next % exchange_.sums.size();
      lanes_.begin(Lanes::sums,
                   last ? exchange_.sums[bucket] + exchange_.between_groups[bucket] : exchange_.sums[bucket]);
    }
    if (waits_) lanes_.wait_for(Lanes::sums, lanes_.begun(Lanes::sums));
    else lanes_.look(Lanes::sums);
  }

  const DividedStep& step_;
  const StepTraffic& exchange_;
  Lanes lanes_;
  UnitsInWindows units_;
  std::vector<std::size_t> final_;
  std::vector<std::size_t> brought_;  ///< units, in the order in which they were brought
  bool waits_;
  double computed_ = 0;
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

void Lanes::compute(double seconds) {
  const double end = now_ + seconds;
  while (has_device_) {  // rounds of both lanes end in the order of their ends
    Work* next = nullptr;
    for (Work& work : lanes_)
      if (work.rounds_left > 0 && work.round_end <= end && (!next || work.round_end < next->round_end)) next = &work;
    if (!next) break;
    go_on(*next, next->round_end);
  }
  now_ = end;
}

void Lanes::begin(Lane lane, const ExchangeCost& cost) {
  at(lane).all.push_back(cost);
  if (has_device_) look(lane);
}

void Lanes::go_on(Work& work, double by) {
  for (double from = by;;) {
    if (work.rounds_left > 0) {
      if (by < work.round_end) return;
      from = work.round_end;
      if (!has_device_) from = now_ += work.adding;
      if (!has_device_) by = now_;
      if (--work.rounds_left > 0) begin_round(work, from);
      else ++work.over;
    } else {
      if (work.over == work.all.size()) return;
      const ExchangeCost& cost = work.all[work.over];
      work.rounds_left = std::max<std::int64_t>(1, cost.rounds);
      const auto rounds = static_cast<double>(work.rounds_left);
      work.adding = has_device_ ? 0 : cost.adding / rounds;
      work.round = cost.seconds / rounds - work.adding;
      begin_round(work, from);
    }
  }
}

void Lanes::begin_round(Work& work, double from) {
  work.round_end = std::max(from, wire_free_) + work.round;
  wire_free_ = work.round_end;
}

void Lanes::wait_for(Lane lane, std::size_t count) {
  Work& work = at(lane);
  for (look(lane); work.over < count; look(lane)) {
    const double end = work.round_end;
    if (has_device_) compute(std::max(0.0, end - now_));
    else now_ = std::max(now_, end);
  }
}

std::vector<double> seconds_of_times(const ComputeTimes& times, const ExecutionPlan& plan, std::int64_t examples,
                                     const PhaseSeconds& phases) {
  std::vector<double> seconds;
  for (const Segment& segment : plan.forward) {
    double& weight = seconds.emplace_back(1e-12);
    for (const Task& task : segment.tasks) weight += times.forward_weight(task.node, examples);
  }
  const int last = static_cast<int>(plan.owner.size()) - 1;
  seconds.push_back(plan.tile_rows > 0 ? times.forward_weight(last, examples) + times.backward_weight(last, examples)
                                       : 0);
  const std::size_t after_loss = seconds.size();
  scale_to(seconds, phases.forward);
  for (const Segment& segment : plan.backward) {
    double& weight = seconds.emplace_back(1e-12);
    for (const Task& task : segment.tasks) {
      if (task.kind == Task::Kind::backward) weight += times.backward_weight(task.node, examples);
      if (task.kind == Task::Kind::recompute) weight += times.forward_weight(task.node, examples);
    }
  }
  scale_to(std::span(seconds).subspan(after_loss), phases.backward);
  return seconds;
}

double DividedStep::exposed() const {
  // From the third micro-batch on, each waits as the one before it.
  constexpr std::size_t few = 4;
  const std::size_t all = micro_batches.size();
  if (all <= few) return Walk(*this).exposed();
  DividedStep some = *this;
  some.micro_batches.erase(some.micro_batches.begin() + few - 1, some.micro_batches.end() - 1);
  const double of_few = Walk(some).exposed();
  some.micro_batches.erase(some.micro_batches.begin());
  return of_few + static_cast<double>(all - few) * (of_few - Walk(some).exposed());
}

}  // namespace lockstep
