// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <array>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>

#include "base/heartbeat.hpp"
#include "core/device.hpp"

namespace lockstep {

/// Phases of a run; `other` is the time between the rest.
enum class RunPhase { data, forward, backward, reduce, optimizer, checkpoint, evaluation, set_up, other };
inline constexpr std::array<std::string_view, 9> phase_names{
    "data", "forward", "backward", "reduce", "optimizer", "checkpoint", "evaluation", "set-up", "between steps"};

/// Measures seconds by phase, as the step's stream passes through them: on devices, kernels run later than the host
/// starts them. Also opens the profiling regions of the same names (seen by Kokkos Tools), and sets the heartbeat's
/// phase.
class PhaseClock {
 public:
  class Scope {
   public:
    Scope(PhaseClock& clock, RunPhase phase)
        : clock_(clock), phase_(phase), around_(std::exchange(clock.phase_, phase)), begin_(ExecSpace()) {
      clock_.count_waits(around_);
      heartbeat().enter(static_cast<std::int32_t>(phase));
      Kokkos::Profiling::pushRegion(std::string(phase_names[static_cast<std::size_t>(phase)]));
    }
    ~Scope() {
      Kokkos::Profiling::popRegion();
      heartbeat().enter(static_cast<std::int32_t>(around_));
      clock_.phase_ = around_;
      clock_.count_waits(phase_);
      clock_.passed(phase_, begin_, StreamEvent(ExecSpace()));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& clock_;
    RunPhase phase_, around_;  // around_: that of the scope around this one
    StreamEvent begin_;
  };

  /// Seconds that the device, or the host, has spent in a phase, in passages that have ended.
  double seconds(RunPhase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  /// Seconds of forward and backward passes, waits for other ranks' statistics included.
  double pass_seconds() const { return seconds(RunPhase::forward) + seconds(RunPhase::backward); }
  /// Seconds within a phase in which the host has waited for other ranks.
  double waited(RunPhase phase) const { return waited_[static_cast<std::size_t>(phase)]; }
  /// Returns the seconds, over all phases of steps, in which the host has waited for other ranks since the last call.
  double take_waited_in_steps() {
    double seconds = 0;
    for (const RunPhase phase : {RunPhase::data, RunPhase::forward, RunPhase::backward, RunPhase::reduce,
                                 RunPhase::optimizer, RunPhase::other})
      seconds += waited(phase);
    return seconds - std::exchange(taken_, seconds);
  }
  /// `take` must return the seconds in which the host has waited for other ranks since its last call.
  void count_waits_of(std::function<double()> take) { take_waited_ = std::move(take); }
  /// Waits for the passages that the host has left and the device has not.
  void catch_up() {
    while (!under_way_.empty()) take_first();
  }

 private:
  struct Passage {
    RunPhase phase;
    StreamEvent begin, end;
  };

  void count_waits(RunPhase phase) { waited_[static_cast<std::size_t>(phase)] += take_waited_(); }
  void passed(RunPhase phase, const StreamEvent& begin, const StreamEvent& end) {
    under_way_.push_back({phase, begin, end});
    while (!under_way_.empty() && under_way_.front().end.has_happened()) take_first();
  }
  void take_first() {
    const Passage& first = under_way_.front();
    seconds_[static_cast<std::size_t>(first.phase)] += first.end.seconds_since(first.begin);
    under_way_.pop_front();
  }

  RunPhase phase_ = RunPhase::other;
  std::array<double, phase_names.size()> seconds_{}, waited_{};
  double taken_ = 0;  // total at the last take_waited_in_steps
  std::function<double()> take_waited_ = [] { return 0.0; };
  std::deque<Passage> under_way_;  // in the order of their ends
};

}  // namespace lockstep
