// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.hpp"

namespace lockstep {
namespace {

bool alive_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// The largest number of bytes alive at any time: no plan can need less.
std::size_t lower_bound(const std::vector<Lifetime>& lifetimes) {
  std::size_t most = 0;
  for (const auto& at : lifetimes) {
    std::size_t sum = 0;
    for (const auto& other : lifetimes)
      if (other.first <= at.first && at.first <= other.last) sum += align_up(other.bytes);
    most = std::max(most, sum);
  }
  return most;
}

void expect_sound(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % memory_alignment, 0u);
    EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!alive_together(lifetimes[i], lifetimes[j])) continue;
      const bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart || lifetimes[i].bytes == 0 || lifetimes[j].bytes == 0) << i << " and " << j;
    }
  }
  EXPECT_GE(plan.bytes, lower_bound(lifetimes));
}

TEST(MemoryPlan, NothingNeedsNothing) { EXPECT_EQ(plan_memory({}).bytes, 0u); }

TEST(MemoryPlan, ReusesWhatIsFree) {
  const std::vector<Lifetime> lifetimes{{1000, 0, 1}, {1000, 2, 3}, {500, 4, 4}};
  const MemoryPlan plan = plan_memory(lifetimes);
  expect_sound(lifetimes, plan);
  EXPECT_EQ(plan.bytes, align_up(1000));
}

TEST(MemoryPlan, EndsAreIncluded) {
  const std::vector<Lifetime> lifetimes{{64, 0, 2}, {64, 2, 3}};
  EXPECT_EQ(plan_memory(lifetimes).bytes, 2 * memory_alignment);
}

TEST(MemoryPlan, RandomLifetimesNeverOverlap) {
  double worst = 1;
  for (std::uint64_t round = 0; round < 300; ++round) {
    const RandomStream random(round, RandomPurpose::dataset);
    const std::uint64_t count = 1 + random.below(40, 0);
    std::vector<Lifetime> lifetimes;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto first = static_cast<int>(random.below(30, 3 * i + 1));
      lifetimes.push_back({static_cast<std::size_t>(random.below(3000, 3 * i + 2)), first,
                           first + static_cast<int>(random.below(12, 3 * i + 3))});
    }
    const MemoryPlan plan = plan_memory(lifetimes);
    expect_sound(lifetimes, plan);
    if (const auto bound = lower_bound(lifetimes); bound > 0)
      worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(bound));
  }
  EXPECT_LT(worst, 1.6) << "far more memory than the bytes that are alive together";
}

}  // namespace
}  // namespace lockstep
