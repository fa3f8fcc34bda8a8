// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/config/parallel_config.hpp"
#include "scaling/compute_times.hpp"
#include "scaling/exchange_cost.hpp"
#include "scaling/step_traffic.hpp"

namespace lockstep {

/// One or several layers of the backward pass: how long they compute, and which buckets are final after that.
struct ComputedPart {
  double seconds = 0;
  std::size_t buckets = 0;  ///< number of final buckets, from the first one on
};

/// How the sums of a step run during its backward pass.
struct Engine {
  GradientSumConfig::Overlap overlap = GradientSumConfig::Overlap::none;  ///< any but automatic
  /// Whether kernels run on a device, so that adding takes no time from them, and the host looks for messages all the
  /// time.
  bool has_device = false;
  double vote_seconds = 0;  ///< time of the vote that travels with the last sums
};

/// Returns the seconds from the beginning of the backward pass until the sums of all buckets are done. As in
/// BucketedReducer, buckets are summed one after the other. `sums`: cost of each bucket.
double sums_end(std::span<const ComputedPart> backward, std::span<const ExchangeCost> sums, const Engine& engine);

/// The time of a rank that computes during two lanes, one of sums and one of gathers, each of which does its exchanges
/// one after the other. Their messages share a wire. On hosts, the computing core also looks for messages, when it is
/// told to, and adds what they bring; for devices, the host looks for messages all the time.
class Lanes {
 public:
  enum Lane { sums, gathers };

  explicit Lanes(bool has_device) : has_device_(has_device) {}

  void compute(double seconds);
  /// Begins an exchange after those that the lane has already.
  void begin(Lane lane, const ExchangeCost& cost);
  /// Ends what is over by now, and begins what comes next.
  void look(Lane lane) { go_on(at(lane), now_); }
  /// Waits until the first `count` exchanges that were begun are over. Meanwhile the other lane is not looked at.
  void wait_for(Lane lane, std::size_t count);

  std::size_t over(Lane lane) const { return lanes_[lane].over; }
  std::size_t begun(Lane lane) const { return lanes_[lane].all.size(); }
  double now() const { return now_; }

 private:
  struct Work {
    std::vector<ExchangeCost> all;
    std::size_t over = 0;          ///< number of exchanges that are over
    std::int64_t rounds_left = 0;  ///< rounds left of the exchange under way
    double round_end = 0, round = 0, adding = 0;
  };
  Work& at(Lane lane) { return lanes_[lane]; }
  void go_on(Work& work, double by);
  void begin_round(Work& work, double from);

  bool has_device_;
  double now_ = 0;
  double wire_free_ = 0;  ///< end of the last round that was begun
  std::array<Work, 2> lanes_;
};

/// Returns the seconds that a rank computes at each time (UnshardPlan) of a micro-batch of so many examples, which
/// together take `phases`. Layers of one segment are added up, because they wait for parameters together.
std::vector<double> seconds_of_times(const ComputeTimes& times, const ExecutionPlan& plan, std::int64_t examples,
                                     const PhaseSeconds& phases);

/// A step of ranks that divide their model.
struct DividedStep {
  const StepTraffic& exchange;
  std::vector<std::vector<double>> micro_batches;  ///< for each micro-batch, the seconds of each time
  double other = 0;                                ///< seconds before the first micro-batch
  GradientSumConfig::Overlap overlap = GradientSumConfig::Overlap::poll;
  bool has_device = false;

  /// Seconds of the step beyond those in which the rank computes, if it follows other steps. Gathers begin after an
  /// update, and the forward pass waits for them; divided parameters come and go (ParameterUnsharder), and divided
  /// gradients are summed (ShardedGradientReducer) as in the run. Sums of gradients that are not divided are not
  /// included (sums_end).
  double exposed() const;
};

}  // namespace lockstep
