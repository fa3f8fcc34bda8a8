// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <array>
#include <string_view>

#include "base/heartbeat.hpp"
#include "base/timer.hpp"

namespace lockstep {

/// What a run can be in; `other` is between the rest.
enum class StepPhase { data, forward, backward, reduce, optimizer, checkpoint, evaluation, set_up, other };
inline constexpr std::array<std::string_view, 9> phase_names{
    "data", "forward", "backward", "reduce", "optimizer", "checkpoint", "evaluation", "set-up", "between steps"};

/// Wall seconds by phase, the profiling regions of the same names (seen by Kokkos Tools), and the heartbeat's phase.
class PhaseClock {
 public:
  class Scope {
   public:
    Scope(PhaseClock& clock, StepPhase phase) : clock_(clock), phase_(phase) {
      heartbeat().enter(static_cast<std::int32_t>(phase));
      Kokkos::Profiling::pushRegion(std::string(phase_names[static_cast<std::size_t>(phase)]));
    }
    ~Scope() {
      Kokkos::Profiling::popRegion();
      heartbeat().enter(static_cast<std::int32_t>(StepPhase::other));
      clock_.add(phase_, timer_.seconds());
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& clock_;
    StepPhase phase_;
    Timer timer_;
  };

  void add(StepPhase phase, double seconds) { seconds_[static_cast<std::size_t>(phase)] += seconds; }
  double seconds(StepPhase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }

 private:
  std::array<double, phase_names.size()> seconds_{};
};

}  // namespace lockstep
