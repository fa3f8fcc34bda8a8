// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "study/results.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t budget = 40, interval = 4;

constexpr const char* base_deck =
    "run: {steps: 1}\n"
    "data: {synthetic: {kind: glyphs}}\n"
    "model: {layers: [flatten, {linear: {features: 10}}]}\n";

TrialPlan plan_of(const std::string& more, const std::string& of_budget = "{steps: 40}") {
  const std::string study =
      "base: base.yaml\n"
      "batches: [8, 16, 32]\n"
      "space: {optimizer.learning_rate: {log: [0.01, 1]}}\n"
      "trials_feasible: 9\n"
      "budget: " +
      of_budget + "\n" + more;
  return TrialPlan(read_study_config(parse_deck(study, "study.yaml")), base_deck);
}

// Values that no deck accepts fail in their trials, whichever the seed draws first; a plan fails only if all are bad.
TEST(TrialPlan, IsRefusedOrNotWhateverTheSeed) {
  const auto plan = [](const std::string& values, int seed) {
    const std::string study = fmt::format(
        "base: base.yaml\nspace: {{optimizer.weight_decay: {}}}\nseed: {}\nbudget: {{steps: 40}}\n"
        "goal: {{metric: validation_loss, best: min}}\n",
        values, seed);
    return TrialPlan(read_study_config(parse_deck(study, "study.yaml")), base_deck);
  };
  int bad = 0;
  for (int seed = 0; seed < 20; ++seed) {
    const TrialPlan some = plan("[0, 0.1, -1]", seed);
    bad += some.settings({}).front().second == "-1" ? 1 : 0;
    test::expect_error(ExitStatus::bad_deck, "optimizer.weight_decay", [&] { plan("[-2, -1]", seed); });
  }
  EXPECT_GT(bad, 0) << "of first trials";
}

/// What a made-up trial does if it is not ended: some reach the goal of 1, at different steps; some diverge, some fail.
struct MadeUpTrial {
  std::int64_t reaches, diverges;
  bool fails;
  double value(std::int64_t step) const {
    return step >= reaches ? 1 : static_cast<double>(step) / static_cast<double>(reaches);
  }
};

MadeUpTrial trial_of(const TrialId& id) {
  std::mt19937 random(static_cast<std::uint32_t>(1000 * id.group + static_cast<std::size_t>(id.index)));
  const auto draw = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  return {.reaches = 8 + draw(60), .diverges = draw(4) == 0 ? 1 + draw(40) : 1000, .fails = draw(9) == 0};
}

using Committed = std::map<std::pair<std::size_t, std::int64_t>, std::string>;

std::string text_of(const TrialRecord& record) {
  std::string text = fmt::format("{} goal {} complete {}:", static_cast<int>(record.outcome),
                                 record.curve.goal_step.value_or(-1), record.curve.complete);
  for (const TrialReport& report : record.curve.reports)
    text += fmt::format(" {} {}", report.step, report.value.value_or(-1));
  return text;
}

/// Simulates a study on `slots` slots of different speeds that is killed again and again, each time after
/// `events_between_kills` events. Only what it has committed survives; returns that.
Committed simulate(const TrialPlan& plan, std::size_t slots, std::uint32_t seed, int events_between_kills) {
  std::mt19937 random(seed);
  std::vector<TrialRecord> kept;
  Committed ledger;
  const auto commit = [&](const TrialRecord& record) {
    EXPECT_TRUE(ledger.emplace(std::pair(record.id.group, record.id.index), text_of(record)).second);
    kept.push_back(record);
  };
  struct Running {
    TrialId id;
    std::int64_t step = 0;
  };
  for (;;) {
    TrialScheduler scheduler(plan, kept, commit);
    std::vector<std::optional<Running>> running(slots);
    for (int event = 0; !scheduler.is_finished(); ++event) {
      if (event == events_between_kills) break;
      auto& slot = running[random() % slots];
      if (!slot) {
        if (const auto id = scheduler.next()) slot = Running{*id};
        continue;
      }
      const TrialId id = slot->id;
      const MadeUpTrial trial = trial_of(id);
      const std::vector<TrialId> superfluous = scheduler.superfluous();
      const bool is_to_end = std::ranges::find(superfluous, id) != superfluous.end();
      const std::int64_t next = slot->step + interval;
      if (is_to_end || trial.fails || trial.diverges <= next || slot->step >= budget || slot->step >= trial.reaches) {
        scheduler.ended(id, {.diverged = trial.diverges <= next, .failed = trial.fails});
        slot.reset();
      } else {
        slot->step = next;
        scheduler.report(id, {next, trial.value(next)});
      }
    }
    if (scheduler.is_finished()) return ledger;
  }
}

class AnyPruner : public testing::TestWithParam<const char*> {};

TEST_P(AnyPruner, RecordsAreThoseOfOneSlot) {
  const TrialPlan plan = plan_of(GetParam());
  const Committed alone = simulate(plan, 1, 1, -1);
  EXPECT_GE(alone.size(), 27u);
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    EXPECT_EQ(simulate(plan, 1 + seed % 12, seed, -1), alone) << seed;
    EXPECT_EQ(simulate(plan, 1 + seed % 5, seed, 150), alone) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Study, AnyPruner,
    testing::Values(
        "goal: {metric: validation_accuracy, value: 1}\nprune: exact\n",
        "goal: {metric: validation_accuracy, value: 1}\nprune: exact\nseeds: 2\n",
        "goal: {metric: validation_accuracy, value: 1}\nprune: none\n",
        "goal: {metric: validation_accuracy, best: max}\nprune: asha\nasha: {min_resource: 4, reduction_factor: 2}\n",
        "goal: {metric: validation_accuracy, best: max}\nprune: median\nmedian: {startup_trials: 2}\n"));

TEST(TrialScheduler, ExactPruningLeavesTheLeastStepsAsTheyAre) {
  const std::string goal = "goal: {metric: validation_accuracy, value: 1}\n";
  const auto least = [](const TrialPlan& plan) {
    std::vector<TrialRecord> records;
    TrialScheduler scheduler(plan, {}, [&](const TrialRecord& record) { records.push_back(record); });
    while (!scheduler.is_finished()) {
      const TrialId id = *scheduler.next();
      const MadeUpTrial trial = trial_of(id);
      for (std::int64_t step = interval; step <= budget && scheduler.superfluous().empty(); step += interval)
        scheduler.report(id, {step, trial.value(step)});
      scheduler.ended(id, {});
    }
    std::vector<std::int64_t> steps;
    for (std::size_t group = 0; group < plan.groups().size(); ++group)
      steps.push_back(best_of(records, group, plan.study().goal)->curve.goal_step.value_or(-1));
    return steps;
  };
  EXPECT_EQ(least(plan_of(goal + "prune: exact\n")), least(plan_of(goal + "prune: none\n")));
}

/// The last of the 40 steps is evaluated in any case.
TEST(TrialPlan, ThereAreAtMostAsManyEvaluationsAsAreGiven) {
  for (const std::int64_t most : {1, 6, 8, 25, 39, 40, 1000}) {
    const TrialPlan plan = plan_of(
        fmt::format("goal: {{metric: validation_accuracy, value: 1}}\nevaluations: {}\n", most));
    const RunOptions::Interval interval = plan.deck({}).run.evaluation_interval();
    ASSERT_TRUE(interval.in_steps);
    EXPECT_LE((budget + interval.count - 1) / interval.count, most);
    EXPECT_TRUE(interval.count == 1 || (budget + interval.count - 2) / (interval.count - 1) > most) << "more would do";
  }
}

TEST(TrialPlan, BudgetsOfExamplesAreNotExceeded) {
  const std::string goal = "goal: {metric: validation_accuracy, value: 1}\n";
  const TrialPlan plan = plan_of(goal, "{examples: 100}");
  std::vector<std::int64_t> steps;
  for (const TrialGroup& group : plan.groups()) steps.push_back(group.budget);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{12, 6, 3})) << "of 8, 16 and 32";
  EXPECT_EQ(plan.deck({2, 0}).run.steps, 3);
  EXPECT_EQ(plan_of(goal, "{examples: 32}").groups()[2].budget, 1);

  test::expect_error(ExitStatus::bad_deck, "study.yaml:5:20: budget.examples: 31 are fewer than the 32",
                     [&] { plan_of(goal, "{examples: 31}"); });
}

TEST(TrialPlan, ComparesBatchesThatStayWhatTheyAre) {
  const std::string ramp = "batch: {ramp: [[10 steps, 64]]}\n", rate = "optimizer.learning_rate: {log: [0.01, 1]}";
  const auto plan = [&](const std::string& of_study) {
    return TrialPlan(read_study_config(parse_deck("base: base.yaml\n" + of_study, "study.yaml")),
                     base_deck + ramp + "schedule: {type: cosine}\n");
  };
  const std::string best = "goal: {metric: validation_loss, best: min}\n";
  for (const std::string& of_batches :
       {"batches: [16, 128]\nspace: {" + rate + "}\n", "vary: {batch.global: [16, 128]}\nspace: {" + rate + "}\n",
        std::string("space: {batch.global: {discrete: [16, 128]}}\n")})
    test::expect_error(ExitStatus::bad_deck, "base.yaml:4:15: batch.ramp",
                       [&] { plan(of_batches + best + "budget: {steps: 40}\n"); });
  const TrialPlan branches = plan(best +
                                  "batches: [32, 64, 128]\nbudget: {examples: 5120}\n"
                                  "branch_from: {checkpoint: a.h5, rate: sqrt, batch: 32, learning_rate: 0.1}\n");
  for (std::size_t group = 0; group < 3; ++group) EXPECT_TRUE(branches.deck({group, 0}).batch.ramp.empty()) << group;
  EXPECT_EQ(branches.deck({2, 0}).run.steps, 40);
  const std::string plain = "space: {" + rate + "}\n" + best;
  EXPECT_EQ(plan(plain + "budget: {steps: 40}\n").deck({}).batch.ramp.size(), 1u);
  test::expect_error(ExitStatus::bad_deck, "study.yaml:4:20: budget.examples",
                     [&] { plan(plain + "budget: {examples: 5120}\n"); });
}

TEST(TrialScheduler, AGroupThatAlwaysDivergesEnds) {
  const TrialPlan plan = plan_of("goal: {metric: validation_accuracy, value: 1}\n");
  int count = 0;
  TrialScheduler scheduler(plan, {}, [&](const TrialRecord&) { ++count; });
  while (!scheduler.is_finished()) scheduler.ended(*scheduler.next(), {.diverged = true});
  EXPECT_EQ(count, 3 * 90);
}

}  // namespace
}  // namespace lockstep
