// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/text.hpp"

#include <gtest/gtest.h>

#include "base/duration.hpp"

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

TEST(Text, CountsInTheSingularAndThePlural) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
}

TEST(Text, ShowsMillisecondsWithoutAnExponent) {
  EXPECT_EQ(milliseconds_text(2.17e-5, 3), "0.0217");
  EXPECT_EQ(milliseconds_text(0.09778, 3), "97.8");
  EXPECT_EQ(milliseconds_text(0.9994, 3), "999");
  EXPECT_EQ(milliseconds_text(0.9996, 3), "1000");
  EXPECT_EQ(milliseconds_text(2.6712, 3), "2671");
  EXPECT_EQ(milliseconds_text(169.577, 4), "169577");
}

TEST(Text, QuotesCellsThatNeedIt) {
  EXPECT_EQ(csv_cell("batch 64"), "batch 64");
  EXPECT_EQ(csv_cell("batch 64, nesterov true"), "\"batch 64, nesterov true\"");
  EXPECT_EQ(csv_cell("5\" tall"), "\"5\"\" tall\"");
  EXPECT_EQ(csv_cell("two\nlines"), "\"two\nlines\"");
}

TEST(Text, FindsTheFirstDifference) {
  using Lines = std::pair<std::string, std::string>;
  EXPECT_EQ(first_difference("a: 1\nb:\n  c: 2\n", "a: 1\nb:\n    c: 3\nd\n"), Lines("c: 2", "c: 3"));
  EXPECT_EQ(first_difference("a: 1\n", "a: 1\nb: 2\n"), Lines("nothing", "b: 2"));
}

}  // namespace
}  // namespace lockstep
