// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/rank_spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {

RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds) {
  std::vector<std::int64_t> nanoseconds = comm.all_gather(std::llround(1e6 * milliseconds));
  const auto [least, most] = std::ranges::minmax_element(nanoseconds);
  const double sum = std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0);
  return {.phase = std::string(phase),
          .min = 1e-6 * static_cast<double>(*least),
          .mean = 1e-6 * sum / comm.size(),
          .max = 1e-6 * static_cast<double>(*most),
          .slowest = static_cast<int>(most - nanoseconds.begin())};
}

std::string spread_text(const std::vector<RankSpread>& spreads) {
  std::string text = "| ms per step | min | mean | max | slowest rank |\n|---|--:|--:|--:|--:|\n";
  for (const RankSpread& spread : spreads)
    text += fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", spread.phase, spread.min, spread.mean, spread.max,
                        spread.slowest);
  return text;
}

}  // namespace lockstep
