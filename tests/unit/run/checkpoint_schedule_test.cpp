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
  schedule.written();
  EXPECT_FALSE(schedule.is_due({.last = 6}, {}));
  EXPECT_TRUE(schedule.is_due({.last = 6}, {.checkpoint = true})) << "ranks have voted for one";
}

}  // namespace
}  // namespace lockstep
