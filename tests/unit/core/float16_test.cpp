// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

template <class T>
T from_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// What the bits say, by the definition: exponent bits e, fraction bits f.
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
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = from_bits<TypeParam>(bits);
    const double expected = meaning(bits, Format<TypeParam>::e, Format<TypeParam>::f);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(value)))) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      ASSERT_EQ(TypeParam(value).bits, bits);
    }
  }
}

/// Between each number and the next: the middle goes to the even one, and either side of it to the nearest.
TYPED_TEST(Float16, RoundsToNearestAndTiesToEven) {
  constexpr unsigned infinity = ((1u << Format<TypeParam>::e) - 1) << Format<TypeParam>::f;
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const float low = from_bits<TypeParam>(bits), high = from_bits<TypeParam>(bits + 1);
    const float middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(TypeParam(middle).bits, even) << bits;
    ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000u) << bits;
    ASSERT_EQ(TypeParam(std::nextafterf(middle, 0)).bits, bits);
    ASSERT_EQ(TypeParam(std::nextafterf(middle, std::numeric_limits<float>::infinity())).bits, bits + 1);
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
