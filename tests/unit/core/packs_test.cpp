// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/packs.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// Computes y = x·a[column] + y and z = i: one array of each kind. nvcc requires kernels to be in named functions.
template <class T>
void combine(const ExecSpace& space, std::int64_t count, const T* x, const float* a, std::int64_t c, T* y, double* z) {
  for_elements(
      space, "lockstep::test::combine", count,
      KOKKOS_LAMBDA(std::int64_t i, const T& in, const float& factor, T& sum, double& place) {
        sum = T(float(in) * factor + float(sum));
        place = static_cast<double>(i);
      },
      Reads(x), ReadsColumns(a, c), Updates(y), Writes(z));
}

template <class T>
class Packs : public testing::Test {};
using PackTypes = testing::Types<bfloat16, half, float>;
TYPED_TEST_SUITE(Packs, PackTypes);

TYPED_TEST(Packs, EveryElementIsDoneOnceWhereverArraysBegin) {
  using T = TypeParam;
  const ExecSpace space;
  constexpr std::int64_t room = 203;
  const auto x = test::make_filled(dtype_of<T>(), {room}, 1), a = test::make_filled(DType::f32, {room}, 2);
  const auto xs = test::values_of(x.get()), factors = test::values_of(a.get());
  for (const std::int64_t c : {1, 3, 8, 16, 24})
    for (const std::int64_t count : {0, 1, 7, 16, 50, 200})
      for (const auto& [x_first, y_first] : {std::pair{0, 0}, {1, 1}, {0, 3}, {2, 0}}) {
        SCOPED_TRACE(fmt::format("{} elements, {} columns, from {} and {}", count, c, x_first, y_first));
        const auto y = test::make_filled(dtype_of<T>(), {room}, 3);
        const OwnedTensor z("z", DType::f64, {room});
        const auto before = test::values_of(y.get());
        combine<T>(space, count, x.get().template as<const T>() + x_first, a.get().as<const float>(), c,
                   y.get().template as<T>() + y_first, z.get().as<double>());
        space.fence();
        auto right = before;
        for (std::int64_t i = 0; i < count; ++i) {
          double& sum = right[static_cast<std::size_t>(y_first + i)];
          sum += xs[static_cast<std::size_t>(x_first + i)] * factors[static_cast<std::size_t>(i % c)];
        }
        EXPECT_LT(test::largest_difference(test::values_of(y.get()), right), 2 * test::rounding_error(dtype_of<T>()));
        const auto places = test::values_of(z.get());
        for (std::int64_t i = 0; i < room; ++i)
          EXPECT_EQ(places[static_cast<std::size_t>(i)], i < count ? static_cast<double>(i) : 0.0);
      }
}

TEST(PackSizes, AreOfSixteenBytesWhereTheElementsAreNarrow) {
  EXPECT_EQ((lanes_of<Reads<bfloat16>, Writes<float>>), 8);
  EXPECT_EQ((lanes_of<Reads<float>, Writes<float>>), 4);
  EXPECT_EQ((lanes_of<Reads<double>>), 2);
  EXPECT_EQ((lanes_of<Reads<std::uint8_t>, Writes<bfloat16>>), 8);  // 16 would take too many registers
}

TEST(PackSizes, ElementsOfARowBeforeAndBehindPacksAreCounted) {
  const OwnedTensor x("x", DType::bf16, {64});
  const auto* data = x.get().as<const bfloat16>();
  for (const std::int64_t begin : {0, 1, 7, 8})
    for (const std::int64_t c : {0, 1, 8, 9, 23, 40}) {
      const RowElements row(c, Reads(data + begin));
      const std::int64_t head = (8 - begin % 8) % 8;
      const bool packed = thread_per_element && head + 8 <= c;
      EXPECT_EQ(row.packs, packed ? (c - head) / 8 : 0) << begin << ", " << c;
      EXPECT_EQ(row.indices, c - 7 * row.packs) << begin << ", " << c;
    }
  // The packs of one array are not aligned with those of the other.
  const RowElements<Reads<bfloat16>, Reads<bfloat16>> shifted(40, Reads(data), Reads(data + 1));
  EXPECT_EQ(shifted.packs, 0);
}

}  // namespace
}  // namespace lockstep
