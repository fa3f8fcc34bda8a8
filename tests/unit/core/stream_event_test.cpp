// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace lockstep {
namespace {

TEST(StreamEvent, TellsTheTimeBetweenTwo) {
  const ExecSpace space;
  const StreamEvent before(space);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const StreamEvent after(space);
  EXPECT_GE(after.seconds_since(before), 0.01);  // an idle device takes some milliseconds to record `before`
  EXPECT_TRUE(after.has_happened());
  EXPECT_TRUE(before.has_happened());
}

}  // namespace
}  // namespace lockstep
