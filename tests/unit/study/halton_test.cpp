// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/search_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

TEST(Halton, WithDigitsAsTheyAreItIsScipys) {
  const auto golden = nlohmann::json::parse(test::read_golden("halton.json"));
  constexpr int primes[] = {2, 3, 5, 7, 11, 13};
  for (std::size_t axis = 0; axis < std::size(primes); ++axis) {
    std::vector<int> digits(static_cast<std::size_t>(primes[axis]));
    std::iota(digits.begin(), digits.end(), 0);
    for (std::size_t i = 0; i < golden["points"].size(); ++i)
      EXPECT_NEAR(radical_inverse(static_cast<std::int64_t>(i), digits), golden["points"][i][axis].get<double>(), 1e-15)
          << "axis " << axis << " point " << i;
  }
}

TEST(Halton, EachPartOfAnAxisHasItsShare) {
  const HaltonSequence sequence(5, 7, 3);
  for (std::size_t axis = 0; axis < 5; ++axis) {
    std::vector<int> counts(10);
    for (std::int64_t i = 0; i < 1000; ++i) {
      const double place = sequence.point(i)[axis];
      ASSERT_TRUE(place >= 0 && place < 1);
      ++counts[static_cast<std::size_t>(10 * place)];
    }
    EXPECT_GE(std::ranges::min(counts), 94) << axis;
    EXPECT_LE(std::ranges::max(counts), 106) << axis;
  }
}

TEST(Halton, PointsAreOfSeedAndStreamAlone) {
  EXPECT_EQ(HaltonSequence(3, 1, 2).point(5), HaltonSequence(3, 1, 2).point(5));
  std::set<std::vector<double>> points;
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (std::uint64_t stream = 0; stream < 3; ++stream) points.insert(HaltonSequence(3, seed, stream).point(0));
  EXPECT_EQ(points.size(), 9u);
}

}  // namespace
}  // namespace lockstep
