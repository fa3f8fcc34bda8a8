// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Times of this rank's passes in the newest steps in which it had examples, without waits for other ranks.
class PassTimes {
 public:
  /// Adds the seconds of a step, or of one example of a step.
  void add(double seconds) { seconds_[static_cast<std::size_t>(steps_++ % kept)] = seconds; }
  void forget() { steps_ = 0; }
  /// Returns each rank's median in whole picoseconds, so that all ranks compute with the same numbers; an empty vector
  /// if some rank has no times. Collective.
  std::vector<double> medians(const Communicator& ranks) const;

 private:
  static constexpr std::int64_t kept = 16;
  std::array<double, kept> seconds_{};
  std::int64_t steps_ = 0;
};

}  // namespace lockstep
