// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
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

/// What `lockstep report` prints of finished runs, by their summary.json: speed, scaling beside the first of them,
/// and where ranks spend their time. Throws Error(missing_file, bad_data).
std::string scaling_report(const std::vector<std::filesystem::path>& runs);

}  // namespace lockstep
