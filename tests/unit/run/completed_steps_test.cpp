// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_schedule.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CompletedSteps, ComeToMultiplesOfAPeriodAtTheirEndOrAmongThem) {
  const auto come = [](std::int64_t last, std::int64_t count, std::int64_t period) {
    bool found = false;  // checked step by step
    for (std::int64_t step = last - count + 1; step <= last; ++step) found |= step % period == 0;
    return found;
  };
  for (std::int64_t period = 1; period <= 7; ++period)
    for (std::int64_t count = 1; count <= 9; ++count)
      for (std::int64_t last = count; last <= 30; ++last) {
        const CompletedSteps steps{.last = last, .count = count};
        EXPECT_EQ(steps.have_come_to(period), come(last, count, period)) << last << ' ' << count << ' ' << period;
      }
}

TEST(CompletedSteps, OneEndsTheEpochThatItHasTheLastExamplesOf) {
  const auto ends = [](SamplerPosition before, SamplerPosition after, std::int64_t epochs) {
    return CompletedSteps{.last = 9, .count = 1, .before = before, .after = after}.have_ended(epochs);
  };
  EXPECT_FALSE(ends({1, 10}, {1, 15}, 1));
  EXPECT_TRUE(ends({1, 15}, {2, 0}, 1));
  EXPECT_TRUE(ends({1, 15}, {2, 0}, 2));
  EXPECT_FALSE(ends({2, 15}, {3, 0}, 2));
}

TEST(CompletedSteps, SeveralEndTheEpochsThatTheyGoPast) {
  const auto end = [](SamplerPosition before, SamplerPosition after, std::int64_t epochs) {
    return CompletedSteps{.last = 9, .count = 4, .before = before, .after = after}.have_ended(epochs);
  };
  EXPECT_TRUE(end({0, 15}, {1, 5}, 1));
  EXPECT_FALSE(end({1, 5}, {1, 15}, 1));
  EXPECT_FALSE(end({0, 15}, {1, 5}, 2));
  EXPECT_TRUE(end({1, 15}, {4, 5}, 3));
}

}  // namespace
}  // namespace lockstep
