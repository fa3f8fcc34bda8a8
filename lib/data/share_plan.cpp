// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/share_plan.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

namespace lockstep {
namespace {

/// Shares before rounding. Shares outside of the limits are set to these, first on the side where more is cut off, and
/// the other ranks divide the rest.
std::vector<double> ideal_shares(std::span<const double> seconds, double total, double least, double most) {
  const std::size_t ranks = seconds.size();
  std::vector<double> shares(ranks);
  std::vector<bool> is_set(ranks, false);
  for (std::size_t pass = 0; pass <= ranks; ++pass) {
    double left = total, speeds = 0, above = 0, below = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r]) left -= shares[r];
      else speeds += 1 / seconds[r];
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r]) continue;
      shares[r] = left / (speeds * seconds[r]);
      above += std::max(0.0, shares[r] - most);
      below += std::max(0.0, least - shares[r]);
    }
    if (above == 0 && below == 0) break;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r] || (above >= below ? shares[r] <= most : shares[r] >= least)) continue;
      shares[r] = above >= below ? most : least;
      is_set[r] = true;
    }
  }
  return shares;
}

}  // namespace

std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t total, std::int64_t least,
                                          std::int64_t most) {
  assert(std::ssize(seconds) * least <= total && total <= std::ssize(seconds) * most);
  const std::vector<double> ideal = ideal_shares(seconds, static_cast<double>(total), static_cast<double>(least),
                                                 static_cast<double>(most));
  std::vector<std::int64_t> shares;
  std::int64_t left = total;
  for (const double share : ideal) {
    shares.push_back(std::clamp(static_cast<std::int64_t>(std::floor(share)), least, most));
    left -= shares.back();
  }
  for (; left != 0; left += left > 0 ? -1 : 1) {
    std::size_t chosen = shares.size();
    double farthest = 0;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (left > 0 ? shares[r] >= most : shares[r] <= least) continue;
      const double missing = (ideal[r] - static_cast<double>(shares[r])) * (left > 0 ? 1 : -1);
      if (chosen < shares.size() && missing <= farthest) continue;
      chosen = r;
      farthest = missing;
    }
    shares[chosen] += left > 0 ? 1 : -1;
  }
  return shares;
}

double slowest_share(std::span<const double> seconds, std::span<const std::int64_t> shares) {
  double slowest = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    slowest = std::max(slowest, seconds[r] * static_cast<double>(shares[r]));
  return slowest;
}

bool is_worth_changing(std::span<const double> seconds, std::span<const std::int64_t> now,
                       std::span<const std::int64_t> next) {
  constexpr double least_gain = 0.04;
  return slowest_share(seconds, next) < (1 - least_gain) * slowest_share(seconds, now);
}

}  // namespace lockstep
