// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/stream_event.hpp"

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
  EXPECT_GE(after.seconds_since(before), 0.01);  // a device that was idle takes some milliseconds to see the first one
  EXPECT_TRUE(after.has_happened());
  EXPECT_TRUE(before.has_happened());
}

}  // namespace
}  // namespace lockstep
