// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Text, ShowsBytesInPowersOfAThousand) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 KB");
  EXPECT_EQ(bytes_text(1234567), "1.23 MB");
  EXPECT_EQ(bytes_text(3.27e9), "3.27 GB");
  EXPECT_EQ(bytes_text(5.5e15), "5500.00 TB");
}

}  // namespace
}  // namespace lockstep
