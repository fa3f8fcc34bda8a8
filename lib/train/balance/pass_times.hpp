// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// What this rank's passes have taken in the newest steps in which it had examples, without waits for others.
class PassTimes {
 public:
  /// Of a step, or of an example in it.
  void add(double seconds) { seconds_[static_cast<std::size_t>(steps_++ % kept)] = seconds; }
  void forget() { steps_ = 0; }
  /// Each rank's median, in whole picoseconds, so that all ranks reckon with the same numbers; nothing where a rank has
  /// none. Collective.
  std::vector<double> medians(const Communicator& ranks) const;

 private:
  static constexpr std::int64_t kept = 16;
  std::array<double, kept> seconds_{};
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
