// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scaling/replay.hpp"

namespace lockstep {

/// A rank's time, in which it computes, and two rows of sums and gathers, each of which does one after the other. Their
/// messages share a wire. On hosts the core that computes also looks for messages, where it is told to, and adds; for
/// what devices compute the host looks all the time.
class Lanes {
 public:
  enum Lane { sums, gathers };

  explicit Lanes(bool has_device) : has_device_(has_device) {}

  void compute(double seconds);
  /// After those that the lane has.
  void begin(Lane lane, const ExchangeCost& cost);
  /// Ends what is over by now, and goes on with what comes next.
  void look(Lane lane) { go_on(at(lane), now_); }
  /// Until the first `count` that were begun are over. Nobody looks at the other lane meanwhile.
  void wait_for(Lane lane, std::size_t count);

  std::size_t over(Lane lane) const { return lanes_[lane].over; }
  std::size_t begun(Lane lane) const { return lanes_[lane].all.size(); }
  double now() const { return now_; }

 private:
  struct Work {
    std::vector<ExchangeCost> all;
    std::size_t over = 0;          ///< of them
    std::int64_t rounds_left = 0;  ///< of the one that is under way
    double round_end = 0, round = 0, adding = 0;
  };
  Work& at(Lane lane) { return lanes_[lane]; }
  void go_on(Work& work, double by);
  void begin_round(Work& work, double from);

  bool has_device_;
  double now_ = 0;
  double wire_free_ = 0;  ///< when the last round that was begun ends
  std::array<Work, 2> lanes_;
};

}  // namespace lockstep
