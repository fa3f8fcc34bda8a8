// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/divided_step.hpp"

#include <algorithm>
#include <numeric>

#include "scaling/lanes.hpp"

namespace lockstep {
namespace {

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
