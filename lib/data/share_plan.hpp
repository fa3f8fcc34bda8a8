// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Shares of ranks in `total` examples or shards, such that all ranks take about the same time: in proportion to 1 /
/// seconds (the seconds of each rank for one part), rounded by largest remainders (Hamilton's method; the lower rank
/// wins ties), each from `least` to `most`, which must be possible.
std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t total, std::int64_t least,
                                          std::int64_t most);

/// Seconds until the slowest rank has done its share.
double slowest_share(std::span<const double> seconds, std::span<const std::int64_t> shares);

/// Whether `next` shortens a step, compared with `now`, by more than times differ by chance.
bool is_worth_changing(std::span<const double> seconds, std::span<const std::int64_t> now,
                       std::span<const std::int64_t> next);

}  // namespace lockstep
