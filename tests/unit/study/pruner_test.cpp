// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/pruner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

Order order_of(const Json& golden) {
  return golden["direction"] == "minimize" ? Order::less_is_better : Order::more_is_better;
}

/// Asks at each report of a golden case whether the trial ends there; returns the number of questions.
std::size_t expect_decisions(const Pruner& pruner, const Json& golden) {
  std::vector<TrialCurve> trials;
  trials.reserve(golden["trials"].size());
  std::size_t count = 0;
  for (const Json& trial : golden["trials"]) {
    std::vector<const TrialCurve*> before;
    for (const TrialCurve& other : trials) before.push_back(&other);
    TrialCurve own;
    for (std::size_t i = 0; i < trial["reports"].size(); ++i, ++count) {
      own.reports.push_back({trial["reports"][i][0], trial["reports"][i][1].get<double>()});
      const bool is_last = i + 1 == trial["reports"].size();
      EXPECT_EQ(pruner.ends(before, own), is_last && trial["pruned"].get<bool>())
          << "trial " << trials.size() << " step " << own.reports.back().step;
    }
    own.complete = !trial["pruned"].get<bool>();
    trials.push_back(own);
  }
  return count;
}

TEST(Pruner, AshaDecidesAsOptunaDoes) {
  std::size_t count = 0;
  const Json pruners = Json::parse(test::read_golden("pruners.json"));
  for (const Json& golden : pruners["asha"])
    count += expect_decisions(*asha_pruner(order_of(golden), golden["min_resource"], golden["reduction_factor"],
                                           golden["min_early_stopping_rate"]),
                              golden);
  EXPECT_GE(count, 200u);
}

TEST(Pruner, MedianDecidesAsOptunaDoes) {
  std::size_t count = 0;
  const Json pruners = Json::parse(test::read_golden("pruners.json"));
  for (const Json& golden : pruners["median"])
    count += expect_decisions(*median_pruner(order_of(golden), golden["startup_trials"], golden["warmup_steps"]),
                              golden);
  EXPECT_GE(count, 200u);
}

TEST(Pruner, ExactEndsWhereAnotherHasReachedTheGoal) {
  const auto pruner = exact_pruner(1);
  const TrialCurve reached{.reports = {{10, 0.5}, {20, 0.9}}, .goal_step = 20, .complete = true}, other{};
  const TrialCurve* before[] = {&other, &reached};
  TrialCurve own{.reports = {{10, 0.4}}};
  EXPECT_FALSE(pruner->ends(before, own));
  own.reports.push_back({20, 0.4});
  EXPECT_TRUE(pruner->ends(before, own));
  EXPECT_FALSE(pruner->ends({}, own));
}

TEST(Pruner, ExactLeavesEachSeedItsLeastSteps) {
  const auto pruner = exact_pruner(2);
  const TrialCurve reached{.reports = {{10, 0.5}, {20, 0.9}}, .goal_step = 20, .complete = true}, other{};
  TrialCurve own{.reports = {{20, 0.4}}};
  EXPECT_FALSE(pruner->ends(std::array{&reached}, own)) << "the other run of its point";
  EXPECT_FALSE(pruner->ends(std::array{&other, &reached}, own)) << "the next point's first run";
  EXPECT_TRUE(pruner->ends(std::array{&reached, &other}, own)) << "the next point's first run";
}

}  // namespace
}  // namespace lockstep
