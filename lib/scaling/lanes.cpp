// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/lanes.hpp"

#include <algorithm>

namespace lockstep {

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

}  // namespace lockstep
