// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Time that ranks take for one part of a step, in milliseconds a step.
struct RankSpread {
  std::string phase;
  double min = 0, mean = 0, max = 0;
  int slowest = 0;  ///< the rank with the longest time
};

/// `milliseconds`: time of this rank. Returns the same on all ranks. Collective.
RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds);

/// Returns a table in Markdown.
std::string spread_text(const std::vector<RankSpread>& spreads);

}  // namespace lockstep
