// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/replica_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// The step of a gradient that is not finite is left out, but its mean square stays in use: it must stay finite.
TEST(StaleGradient, KeepsNothingOfOneThatIsNotFinite) {
  const ExecSpace space;
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> gradients{std::numeric_limits<float>::quiet_NaN(), largest, 2}, squares{1, 1, 1};
  const OwnedTensor gradient("test::gradient", DType::f32, {3}), mean_square("test::mean_square", DType::f32, {3}),
      now("test::now", DType::f32, {3});
  copy_from_host(space, gradients.data(), gradient.get());
  copy_from_host(space, squares.data(), mean_square.get());
  compensate_delay(space, {.lambda = 1, .adaptive = true}, 1, now.get(), now.get(), mean_square.get(), gradient.get());
  const std::vector<double> found = test::values_of(mean_square.get());
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 1) << "whose square is not";
  EXPECT_NEAR(found[2], 0.95 + 0.05 * 4, 1e-6);
  EXPECT_TRUE(std::isnan(test::values_of(gradient.get())[0]));
}

}  // namespace
}  // namespace lockstep
