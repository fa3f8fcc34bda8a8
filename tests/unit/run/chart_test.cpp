// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/chart.hpp"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Chart, LeavesOutWhatHasNoLogarithm) {
  Chart chart("results", "batch", "validation_r_squared");
  chart.add_points("measured", {{8, 0.5}, {16, 0}, {32, -0.25}});
  chart.add_line("tolerated", {{8, -0.1}, {32, -0.1}}, Chart::Stroke::dashed);
  const std::string svg = chart.svg();
  EXPECT_THAT(svg, HasSubstr("<circle"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace lockstep
