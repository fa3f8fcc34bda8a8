// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_schedule.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CheckpointSchedule, WhatIsDueWithoutCommonParametersWaitsForThem) {
  CheckpointSchedule schedule({.every_steps = 4});
  EXPECT_FALSE(schedule.is_due({.last = 3}, {}));
  EXPECT_TRUE(schedule.is_due({.last = 4}, {}));
  const CompletedSteps alone{.last = 4, .is_common = false};
  EXPECT_FALSE(schedule.is_due(alone, {}));
  schedule.postpone(alone, {});
  EXPECT_TRUE(schedule.is_due({.last = 5}, {})) << "it was due at step 4";
  schedule.written(5);
  EXPECT_FALSE(schedule.is_due({.last = 6}, {}));
  EXPECT_TRUE(schedule.is_due({.last = 6}, {.checkpoint = true})) << "ranks have voted for one";
}

TEST(CheckpointSchedule, CopiesAreDueOnceAnInterval) {
  CheckpointSchedule schedule({.neighbours_every = 5});
  schedule.copied(3);  // the run begins at step 3
  EXPECT_FALSE(schedule.copies_are_due({.last = 4}));
  EXPECT_FALSE(schedule.copies_are_due({.last = 5, .is_common = false}));
  EXPECT_TRUE(schedule.copies_are_due({.last = 7})) << "those of step 5 had to wait";
  schedule.copied(7);
  EXPECT_FALSE(schedule.copies_are_due({.last = 9}));
  EXPECT_TRUE(schedule.copies_are_due({.last = 10}));
  schedule.written(10);
  EXPECT_FALSE(schedule.copies_are_due({.last = 11})) << "the checkpoint on disk stands for them";
  EXPECT_FALSE(CheckpointSchedule({.every_steps = 1}).copies_are_due({.last = 10})) << "the deck wants none";
}

}  // namespace
}  // namespace lockstep
