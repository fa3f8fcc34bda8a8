// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scaling/replay.hpp"

namespace lockstep {

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

}  // namespace lockstep
