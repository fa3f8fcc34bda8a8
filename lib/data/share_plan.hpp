// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Shares of ranks in `total` examples or shards, by which all take about as long: in proportion to 1 / seconds (of
/// each rank, for one part), rounded by largest remainders (Hamilton's method; of equal ones the lower rank's), each
/// from `least` to `most`, which has to be possible.
std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t total, std::int64_t least,
                                          std::int64_t most);

/// Steps that workers do between two synchronizations, so that all take about as long: max(1, ⌊most · fastest /
/// seconds⌋), with the seconds of each for one step.
std::vector<std::int64_t> steps_by_speed(std::span<const double> seconds, std::int64_t most);

/// Until the slowest rank has done its share.
double slowest_share(std::span<const double> seconds, std::span<const std::int64_t> shares);

/// Whether `next` shortens a step by so much that it is worth changing `now`: times are never quite the same twice.
bool is_worth_changing(std::span<const double> seconds, std::span<const std::int64_t> now,
                       std::span<const std::int64_t> next);

}  // namespace lockstep
