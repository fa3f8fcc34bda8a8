// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/on_device.hpp"

namespace lockstep {
namespace {

using test::on_device;

template <class T>
KOKKOS_FUNCTION T from_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// The number that a bit pattern stands for, and the bit pattern that this number is stored as.
struct Read {
  float value;
  unsigned stored;
};
template <class T>
struct ReadBits {
  KOKKOS_FUNCTION Read operator()(unsigned bits) const {
    const float value = from_bits<T>(bits);
    return {value, T(value).bits};
  }
};
template <class T>
struct StoreAs {
  KOKKOS_FUNCTION unsigned operator()(float value) const { return T(value).bits; }
};

std::vector<unsigned> patterns() {
  std::vector<unsigned> all(65536);
  for (unsigned bits = 0; bits < all.size(); ++bits) all[bits] = bits;
  return all;
}

/// The number that `bits` stand for by the definition of the format, with e exponent bits and f fraction bits.
double meaning(unsigned bits, int e, int f) {
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> f) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
  const unsigned fraction = bits & ((1u << f) - 1);
  if (exponent == (1 << e) - 1) return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - f);
  return sign * std::ldexp((1u << f) + fraction, exponent - bias - f);
}

template <class T>
struct Format;
template <>
struct Format<bfloat16> {
  static constexpr int e = 8, f = 7;
};
template <>
struct Format<half> {
  static constexpr int e = 5, f = 10;
};

template <class T>
class Float16 : public testing::Test {};
using Types = testing::Types<bfloat16, half>;
TYPED_TEST_SUITE(Float16, Types);

TYPED_TEST(Float16, EveryPatternMeansItsNumberAndComesBack) {
  const std::vector<Read> read = on_device(ReadBits<TypeParam>{}, patterns());
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = read[bits].value;
    const double expected = meaning(bits, Format<TypeParam>::e, Format<TypeParam>::f);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(read[read[bits].stored].value)) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      ASSERT_EQ(read[bits].stored, bits);
    }
  }
}

/// The middle between a number and the next one is rounded to the even of both, its neighbours to the nearest.
TYPED_TEST(Float16, RoundsToNearestAndTiesToEven) {
  constexpr unsigned infinity = ((1u << Format<TypeParam>::e) - 1) << Format<TypeParam>::f;
  std::vector<float> middles, below, above;
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double first = meaning(bits, Format<TypeParam>::e, Format<TypeParam>::f),
                 second = meaning(bits + 1, Format<TypeParam>::e, Format<TypeParam>::f);
    middles.push_back(static_cast<float>((first + second) / 2));
    below.push_back(std::nextafterf(middles.back(), 0));
    above.push_back(std::nextafterf(middles.back(), std::numeric_limits<float>::infinity()));
  }
  const StoreAs<TypeParam> store;
  const auto middle = on_device(store, middles), low = on_device(store, below), high = on_device(store, above);
  for (float& number : middles) number = -number;
  const auto negative = on_device(store, middles);
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(middle[bits], even) << bits;
    ASSERT_EQ(negative[bits], even | 0x8000u) << bits;
    ASSERT_EQ(low[bits], bits);
    ASSERT_EQ(high[bits], bits + 1);
  }
}

TYPED_TEST(Float16, WhatIsNotFiniteStaysSo) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(TypeParam(infinity)), infinity);
  EXPECT_EQ(static_cast<float>(TypeParam(-infinity)), -infinity);
  EXPECT_EQ(static_cast<float>(TypeParam(std::numeric_limits<float>::max())), infinity);
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(value)))) << bits;
  }
}

TEST(Half, KnownNumbers) {  // as numpy converts them
  EXPECT_EQ(half(1.0f).bits, 0x3C00);
  EXPECT_EQ(half(-2.0f).bits, 0xC000);
  EXPECT_EQ(half(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(half(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(half(65520.0f).bits, 0x7C00) << "halfway to what would come next: infinite";
  EXPECT_EQ(half(1e30f).bits, 0x7C00);
  EXPECT_EQ(half(0.1f).bits, 0x2E66);
  EXPECT_EQ(half(5.9604645e-8f).bits, 0x0001) << "the smallest";
  EXPECT_EQ(half(2.9802322e-8f).bits, 0x0000) << "half of it";
  EXPECT_EQ(half(3.0e-8f).bits, 0x0001);
  EXPECT_EQ(half(6.1035156e-5f).bits, 0x0400) << "the smallest normal one";
  EXPECT_EQ(half(-1e-20f).bits, 0x8000);
}

TEST(Bfloat16, KnownNumbers) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3F80);
  EXPECT_EQ(bfloat16(1.00390625f).bits, 0x3F80) << "1 + 2^-8 is halfway";
  EXPECT_EQ(bfloat16(1.01171875f).bits, 0x3F82);
  EXPECT_EQ(bfloat16(3.3895314e38f).bits, 0x7F7F) << "the largest";
  EXPECT_EQ(bfloat16(0.1f).bits, 0x3DCD);
  EXPECT_EQ(bfloat16(1e-40f).bits, 0x0001);
}

#if defined(__FLT16_MANT_DIG__)
TEST(Half, AgreesWithTheCompilers) {
  std::uint32_t bits = 1;
  for (int i = 0; i < 2000000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value)) continue;
    const _Float16 converted = static_cast<_Float16>(value);
    std::uint16_t expected;
    std::memcpy(&expected, &converted, sizeof(expected));
    ASSERT_EQ(half(value).bits, expected) << value;
  }
}
#endif

}  // namespace
}  // namespace lockstep
