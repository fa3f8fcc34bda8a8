// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/batch_partition.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace lockstep {
namespace {

using Shares = std::vector<std::int64_t>;

Shares shares(const std::vector<double>& seconds, std::int64_t total, std::int64_t least, std::int64_t most) {
  return shares_by_speed(seconds, total, least, most);
}

TEST(SharePlan, IsInProportionToSpeed) {
  EXPECT_EQ(shares({1, 1, 1, 2}, 28, 1, 14), Shares({8, 8, 8, 4}));
  EXPECT_EQ(shares({3, 3, 3, 3}, 28, 1, 14), Shares({7, 7, 7, 7}));
  EXPECT_EQ(shares({0.5, 1, 0.25}, 14, 0, 14), Shares({4, 2, 8}));
}

TEST(SharePlan, LeavesTheRestToTheLargestRemainders) {
  // 10 divided as 5 : 3 : 1 : 3 are 4.17, 2.5, 0.83 and 2.5: of two ranks with equal remainders the lower one wins.
  EXPECT_EQ(shares({1.0 / 5, 1.0 / 3, 1, 1.0 / 3}, 10, 0, 10), Shares({4, 3, 1, 2}));
  EXPECT_EQ(shares({1, 1, 1, 1}, 30, 0, 30), Shares({8, 8, 7, 7}));
}

TEST(SharePlan, StaysWithinLimitsAndDividesTheRestBySpeed) {
  EXPECT_EQ(shares({1, 1, 1, 1000}, 28, 1, 14), Shares({9, 9, 9, 1}));
  EXPECT_EQ(shares({0.001, 1, 1, 0.5}, 28, 1, 14), Shares({14, 4, 3, 7}));
  EXPECT_EQ(shares({1, 1, 1000, 1000}, 4, 1, 2), Shares({1, 1, 1, 1}));
  EXPECT_EQ(shares({1, 1000, 1000}, 12, 0, 4), Shares({4, 4, 4}));
}

TEST(SharePlan, IsWithinOneOfTheIdealForAnySpeeds) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t ranks = 1 + random() % 9;
    std::vector<double> seconds(ranks);
    for (double& s : seconds) s = 0.2 + static_cast<double>(random() % 1000) / 300;
    const auto size = static_cast<std::int64_t>(ranks);
    const std::int64_t total = size + static_cast<std::int64_t>(random() % 200), most = 2 * ((total + size - 1) / size);
    const Shares found = shares(seconds, total, 1, most);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), total);
    double speeds = 0;
    for (const double s : seconds) speeds += 1 / s;
    bool limited = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      const double ideal = static_cast<double>(total) / (speeds * seconds[r]);
      limited |= ideal < 1 || ideal > static_cast<double>(most);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_GE(found[r], 1);
      EXPECT_LE(found[r], most);
      const double ideal = static_cast<double>(total) / (speeds * seconds[r]);
      EXPECT_TRUE(limited || std::abs(static_cast<double>(found[r]) - ideal) < 1.0);
    }
  }
}

TEST(SharePlan, ChangesForGainsOnly) {
  const std::vector<double> nearly{1, 1.02, 0.99, 1.01}, slow{1, 1, 1, 2};
  const Shares equal{32, 32, 32, 32}, moved{51, 51, 51, 25};
  EXPECT_DOUBLE_EQ(slowest_share(slow, equal), 64);
  EXPECT_FALSE(is_worth_changing(nearly, equal, shares_by_speed(nearly, 128, 1, 64)));
  EXPECT_TRUE(is_worth_changing(slow, equal, shares_by_speed(slow, 128, 1, 64)));
  EXPECT_FALSE(is_worth_changing(slow, equal, equal));
  EXPECT_TRUE(is_worth_changing(nearly, moved, shares_by_speed(nearly, 128, 1, 64)));
}

}  // namespace
}  // namespace lockstep
