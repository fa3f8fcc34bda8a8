// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/replica_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

template <class T>
class Adasum : public testing::Test {
 protected:
  static std::vector<double> of(const std::vector<T>& a, const std::vector<T>& b) {
    const auto count = static_cast<std::int64_t>(a.size());
    const OwnedTensor lower("test::a", dtype_of<T>(), {count}), upper("test::b", dtype_of<T>(), {count}),
        scratch("test::scratch", DType::f64, {adasum_scratch(count)});
    const ExecSpace space;
    copy_from_host(space, a.data(), lower.get());
    copy_from_host(space, b.data(), upper.get());
    adasum(space, lower.get(), upper.get(), scratch.get());
    return test::values_of(lower.get());
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Adasum, Types);

TYPED_TEST(Adasum, AddsWhatIsOrthogonalAndAveragesWhatIsParallel) {
  using T = TypeParam;
  using Numbers = std::vector<double>;
  EXPECT_EQ(this->of({3, 0, 1}, {0, 2, 0}), (Numbers{3, 2, 1}));
  EXPECT_EQ(this->of({1, 2, -4}, {1, 2, -4}), (Numbers{1, 2, -4}));
  EXPECT_EQ(this->of({1, 2}, {3, 6}), (Numbers{2, 4})) << "(1 - 3/2) a + (1 - 1/6) 3 a";
  EXPECT_EQ(this->of({0, 0}, {3, 6}), (Numbers{3, 6}));
  EXPECT_EQ(this->of({3, 6}, {0, 0}), (Numbers{3, 6}));
  EXPECT_EQ(this->of({T(1e-6), 0}, {T(1e-6), 0})[0], static_cast<double>(T(1e-6))) << "however small";
}

TYPED_TEST(Adasum, IsThatOfPlainLoops) {
  using T = TypeParam;
  for (const std::size_t count : {1u, 13u, 4096u, 9001u}) {
    std::vector<T> a(count), b(count);
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<T>(std::sin(0.7 * static_cast<double>(i)));
      b[i] = static_cast<T>(std::cos(0.6 * static_cast<double>(i)) + 0.2);
      ab += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
      bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
    }
    std::vector<double> expected;
    for (std::size_t i = 0; i < count; ++i)
      expected.push_back((aa > 0 ? 1 - ab / (2 * aa) : 1) * static_cast<double>(a[i]) +
                         (1 - ab / (2 * bb)) * static_cast<double>(b[i]));
    EXPECT_LT(test::largest_difference(this->of(a, b), expected), sizeof(T) == 8 ? 1e-14 : 3e-7) << count;
  }
}

}  // namespace
}  // namespace lockstep
