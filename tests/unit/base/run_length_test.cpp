// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/run_length.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

using Unit = TrainingSpan::Unit;

TEST(TrainingSpan, HasAUnit) {
  const auto same = [](const char* text, double count, Unit unit) {
    const TrainingSpan span = training_span_of(text);
    EXPECT_EQ(span.count, count) << text;
    EXPECT_EQ(span.unit, unit) << text;
  };
  same("0", 0, Unit::steps);
  same("500 steps", 500, Unit::steps);
  same("1 step", 1, Unit::steps);
  same("2.5 epochs", 2.5, Unit::epochs);
  same("1e6 examples", 1e6, Unit::examples);
}

/// A reference that follows a run step by step, with the batch size of each step.
struct Walk {
  RunPoint point;
  void step(std::int64_t epoch_examples, bool drop_last, std::int64_t batch) {
    const std::int64_t count = std::min(batch, epoch_examples - point.next);
    ++point.step;
    point.next += count;
    point.examples += count;
    if (epoch_examples - point.next >= (drop_last ? batch : 1)) return;
    ++point.epoch;
    point.next = 0;
  }
};

TEST(RunLength, IsWhatStepsAddUpTo) {
  for (const bool drop_last : {false, true}) {
    for (const std::int64_t examples : {1, 7, 64, 100}) {
      for (const std::int64_t batch : {1, 3, 8, 100}) {
        if (drop_last && batch > examples) continue;
        const RunLength length(examples, drop_last, {{.batch = batch}}, 5, std::nullopt);
        Walk walk;
        while (walk.point.epoch < 5) {
          for (const auto& [count, unit] : {std::pair(static_cast<double>(walk.point.step), Unit::steps),
                                            {static_cast<double>(walk.point.examples), Unit::examples}}) {
            const RunPoint found = length.point_of({count, unit});
            EXPECT_EQ(found.step, walk.point.step) << examples << " " << batch << " " << drop_last;
            EXPECT_EQ(found.epoch, walk.point.epoch);
            EXPECT_EQ(found.next, walk.point.next);
            EXPECT_EQ(found.examples, walk.point.examples);
          }
          if (walk.point.next == 0) {
            EXPECT_EQ(length.step_of({static_cast<double>(walk.point.epoch), Unit::epochs}), walk.point.step);
          }
          walk.step(examples, drop_last, batch);
        }
        EXPECT_EQ(length.steps(), walk.point.step);
      }
    }
  }
}

TEST(RunLength, FractionsOfEpochsAreNotALittleLate) {
  const RunLength length(1000, false, {{.batch = 100}, {.begin = {6.3, Unit::epochs}, .batch = 50}}, 10, std::nullopt);
  for (int tenths = 0; tenths <= 63; ++tenths) {
    EXPECT_EQ(length.step_of({0.1 * tenths, Unit::epochs}), tenths);
    EXPECT_EQ(length.step_of({tenths / 10.0, Unit::epochs}), tenths);
    EXPECT_EQ(length.step_after(tenths, {0.2, Unit::epochs}), tenths < 62 ? tenths + 2 : 63 + 2 * (tenths + 2 - 63));
  }
  EXPECT_EQ(length.batch_at_step(62), 100);
  EXPECT_EQ(length.batch_at_step(63), 50);
  EXPECT_EQ(length.step_of({0.1001, Unit::epochs}), 2);
  EXPECT_EQ(RunLength(1'000'000'000, false, {{.batch = 1}}, 1, std::nullopt).step_of({0.3, Unit::epochs}), 300'000'000);
}

TEST(RunLength, EndsAtWhicheverComesFirst) {
  EXPECT_EQ(RunLength(100, false, {{.batch = 30}}, 3, std::nullopt).steps(), 12);
  EXPECT_EQ(RunLength(100, false, {{.batch = 30}}, 3, 10).steps(), 10);
  EXPECT_EQ(RunLength(100, false, {{.batch = 30}}, 2, 10).steps(), 8);
  EXPECT_EQ(RunLength(100, true, {{.batch = 30}}, 1'000'000'000, std::nullopt).steps(), 3'000'000'000);
}

TEST(RunLength, GoesFartherThanAnyRun) {
  const RunLength length(100, false, {{.batch = 30}}, 3, std::nullopt);
  for (const Unit unit : {Unit::steps, Unit::epochs, Unit::examples})
    EXPECT_GT(length.step_of({1e99, unit}), 1'000'000'000'000) << static_cast<int>(unit);
}

TEST(RunLength, BatchesGrowAtTheirStages) {
  // The first epoch has steps of 30, 30, 30 and 10; the batch is 50 from the second epoch on, 100 after 250 examples.
  const RunLength length(100, false, {{.batch = 30}, {{1, Unit::epochs}, 50}, {{250, Unit::examples}, 100}}, 4,
                         std::nullopt);
  EXPECT_EQ(length.steps(), 4 + 2 + 1 + 1 + 1);
  Walk walk;
  for (std::int64_t step = 0; step < length.steps(); ++step) {
    const std::int64_t batch = step < 4 ? 30 : step < 7 ? 50 : 100;
    EXPECT_EQ(length.batch_at_step(step), batch) << step;
    EXPECT_EQ(length.batch_at(walk.point.epoch, walk.point.next), batch) << step;
    EXPECT_EQ(length.point_of({static_cast<double>(step), Unit::steps}).examples, walk.point.examples) << step;
    walk.step(100, false, batch);
  }
}

TEST(RunLength, AStepTakesAtMostAllExamples) {
  const RunLength length(100, false, {{.batch = 64}, {{2, Unit::epochs}, 400}}, 4, std::nullopt);
  EXPECT_EQ(length.batch_at_step(0), 64);
  EXPECT_EQ(length.batch_at_step(4), 100);
}

/// With drop_last, an epoch ends where fewer examples are left than the batch that would begin there.
TEST(RunLength, ALargerBatchMayDropWhatIsLeft) {
  const RunLength length(100, true, {{.batch = 10}, {{7, Unit::steps}, 50}, {{10, Unit::steps}, 20}}, 3, std::nullopt);
  Walk walk;
  for (std::int64_t step = 0; step < length.steps(); ++step) {
    const RunPoint found = length.point_of({static_cast<double>(step), Unit::steps});
    const std::int64_t batch = length.batch_at(walk.point.epoch, walk.point.next);
    EXPECT_EQ(batch, length.batch_at_step(step)) << step;
    if (100 - walk.point.next < batch) walk.point = {step, walk.point.epoch + 1, 0, walk.point.examples};
    EXPECT_EQ(std::pair(found.epoch, found.next), std::pair(walk.point.epoch, walk.point.next)) << step;
    EXPECT_EQ(found.examples, walk.point.examples) << step;
    walk.step(100, true, batch);
  }
  EXPECT_EQ(walk.point.epoch, 3);
}

TEST(RunLength, BeginsBehindAWarmUp) {
  const RunLength length(100, false, {{.batch = 30}}, 10, std::nullopt);
  EXPECT_EQ(length.step_after(4, {1, Unit::epochs}), 8);
  EXPECT_EQ(length.step_after(3, {2, Unit::steps}), 5);
  EXPECT_EQ(length.count_at(5, Unit::epochs), 1.3);
}

}  // namespace
}  // namespace lockstep
