// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// How long ranks take for one part of a step, in milliseconds a step.
struct RankSpread {
  std::string phase;
  double min = 0, mean = 0, max = 0;
  int slowest = 0;  ///< the rank of max
};

/// `milliseconds`: of this rank. The same on all ranks. Collective.
RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds);

/// A table in Markdown.
std::string spread_text(const std::vector<RankSpread>& spreads);

}  // namespace lockstep
