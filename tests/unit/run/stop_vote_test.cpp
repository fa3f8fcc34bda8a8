// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_schedule.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep {
namespace {

struct Owner final : RunOwner {
  std::string stop_reason() override { return reason; }
  bool ends_after(std::int64_t, const Metrics&) override { return false; }
  std::string reason;
};

StopRequest ends_in(double seconds) {
  using Time = StopRequest::Time;
  const std::chrono::duration<double> left(seconds);
  return {Time::clock::now() + std::chrono::duration_cast<Time::duration>(left), std::nullopt};
}

TEST(StopVote, LeavesTimeForTwiceTheStepsAndTheCheckpointThatFollow) {
  StopVote vote(ends_in(10000), nullptr);
  vote.step_done(100);
  vote.step_done(30);
  EXPECT_EQ(vote.longest_step(), 100);
  EXPECT_FALSE(vote.is_for_stop(4, 500));  // needs 1,802 s
  EXPECT_EQ(vote.reason(), "");
  EXPECT_TRUE(vote.is_for_stop(30, 2000));  // needs 10,002 s
  EXPECT_EQ(vote.reason(), "its time is up");
}

TEST(StopVote, StaysAsItIsWhenItsReasonHasGone) {
  Owner owner;
  StopVote vote({std::nullopt, std::nullopt}, &owner);
  EXPECT_FALSE(vote.is_for_stop(1, 0));
  owner.reason = "its slot is wanted";
  EXPECT_TRUE(vote.is_for_stop(1, 0));
  owner.reason.clear();
  EXPECT_TRUE(vote.is_for_stop(1, 0));
  EXPECT_EQ(vote.reason(), "its slot is wanted");
}

}  // namespace
}  // namespace lockstep
