// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/metrics_file.hpp"

#include <gtest/gtest.h>

#include "support/scratch.hpp"

namespace lockstep {
namespace {

TEST(MetricsReader, FindsCellsByTheNamesOfTheirColumns) {
  const test::ScratchFolder folder;
  const std::string file = folder / "metrics.csv";
  test::write_file(file, "step,split,loss\n8,train,0.5\n16,validation\n24,train,1.");
  MetricsReader reader(file);
  EXPECT_EQ(reader.columns(), (std::vector<std::string>{"step", "split", "loss"}));
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), "8,train,0.5");
  EXPECT_EQ(reader.cell("loss"), "0.5");
  EXPECT_EQ(reader.cell("accuracy"), "") << "there is no such column";
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line_number(), 3);
  EXPECT_EQ(reader.cells(), 2u);
  EXPECT_EQ(reader.cell("split"), "validation");
  EXPECT_EQ(reader.cell("loss"), "") << "the row is shorter";
  EXPECT_FALSE(reader.next()) << "the last line has no end yet";
}

TEST(MetricsReader, OfNoFileHasNoColumns) {
  const test::ScratchFolder folder;
  MetricsReader reader(folder / "metrics.csv");
  EXPECT_TRUE(reader.columns().empty());
  EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace lockstep
