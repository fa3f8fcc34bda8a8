// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/median.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Median, IsInTheMiddle) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
}

}  // namespace
}  // namespace lockstep
