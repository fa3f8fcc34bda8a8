// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/results.hpp"

#include <gtest/gtest.h>

#include "support/scratch.hpp"

namespace lockstep {
namespace {

const std::string whole =
    "step,epoch,split,loss,accuracy,noise_scale,reduce_exposed_ms\n"
    "8,0,train,2.5,,16.5,0.25\n"
    "8,0,validation,2.25,0.5,,\n";

TEST(CurveFile, HasTheEvaluations) {
  const test::ScratchFolder folder;
  const std::string file = folder / "metrics.csv";
  const GoalOptions goal{.metric = ValidationMetric("validation_loss")};
  EXPECT_TRUE(read_curve(file, goal).empty()) << "none is there";
  test::write_file(file, whole + "16,1,validation,1.");  // a line that is still being written
  const std::vector<TrialReport> curve = read_curve(file, goal);
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].step, 8);
  EXPECT_EQ(curve[0].value, 2.25);
  EXPECT_EQ(read_noise_scale(file), 16.5);
}

TEST(CurveFile, OfOtherLinesIsRefused) {
  const test::ScratchFolder folder;
  const std::string file = folder / "metrics.csv";
  for (const auto& [text, words] : {std::pair(whole + "12,3\n", "metrics.csv: line 4 has 2 cells, not 7 as line 1"),
                                    {whole + "\n", "line 4 has 1 cells"},
                                    {whole + "16,1,validation,1,1,,,9\n", "line 4 has 8 cells"},
                                    {"step,loss\n1,2\n", "line 1 has no column split"}}) {
    test::write_file(file, text);
    test::expect_error(ExitStatus::bad_data, words, [&] { read_curve(file, {}); });
  }
}

}  // namespace
}  // namespace lockstep
