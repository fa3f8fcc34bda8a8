// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <cstdint>

// Elementary functions without branches and calls, so that loops over floats become vectors: compilers
// do not do that with the C library's functions. Numbers are chosen among by their bits, since compilers make
// branches of `?:` between floats. Doubles get the library's.
namespace lockstep {

namespace fast {
inline constexpr std::int32_t infinity = 0x7F800000, sign = static_cast<std::int32_t>(0x80000000u);

KOKKOS_INLINE_FUNCTION std::int32_t bits(float x) { return Kokkos::bit_cast<std::int32_t>(x); }
KOKKOS_INLINE_FUNCTION float number(std::int32_t x) { return Kokkos::bit_cast<float>(x); }
/// All ones, or all zeros.
KOKKOS_INLINE_FUNCTION std::int32_t mask(bool chosen) { return -static_cast<std::int32_t>(chosen); }
}  // namespace fast

/// e^x to 2 units in the last place: 0 below −104, infinite above 88.72, subnormal results included.
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  // Within ±104, where results are 0 and infinite; NaN stays NaN. Bits of positive numbers are in their order.
  constexpr std::int32_t limit = 0x42D00000;  // 104
  const std::int32_t magnitude = fast::bits(x) & ~fast::sign;
  const std::int32_t clamped = (limit & fast::mask(magnitude > limit)) | (magnitude & ~fast::mask(magnitude > limit)) |
                               (magnitude & fast::mask(magnitude > fast::infinity));
  x = fast::number(clamped | (fast::bits(x) & fast::sign));
  // x = k·ln 2 + r, |r| ≤ ln 2 / 2. Adding 1.5·2²³ rounds to a whole number and leaves it in the lowest bits;
  // ln 2 in two pieces makes r exact (Cody & Waite, "Software manual for the elementary functions", 1980).
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float k = shifted - 12582912.0f;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  // S. Moshier's polynomial (Cephes, expf).
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^k in two factors: alone it may be no normal number.
  const std::int32_t whole = fast::bits(shifted) - 0x4B400000;
  const std::int32_t half = whole >> 1;
  return p * fast::number((half + 127) << 23) * fast::number((whole - half + 127) << 23);
}
KOKKOS_INLINE_FUNCTION double fast_exp(double x) { return Kokkos::exp(x); }

KOKKOS_INLINE_FUNCTION float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }
KOKKOS_INLINE_FUNCTION double fast_sigmoid(double x) { return 1.0 / (1.0 + Kokkos::exp(-x)); }

/// To 3 units in the last place.
KOKKOS_INLINE_FUNCTION float fast_tanh(float x) {
  // Small ones by a polynomial (Cephes, tanhf), since 1 − 2 / (e^2x + 1) cancels there.
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x;
  const std::int32_t sign = fast::bits(x) & fast::sign;
  const std::int32_t magnitude = fast::bits(x) & ~fast::sign;
  const float large = 1.0f - 2.0f / (fast_exp(2.0f * fast::number(magnitude)) + 1.0f);
  const std::int32_t is_small = fast::mask(magnitude < 0x3F200000);  // 0.625
  return fast::number((fast::bits(small) & is_small) | ((fast::bits(large) | sign) & ~is_small));
}
KOKKOS_INLINE_FUNCTION double fast_tanh(double x) { return Kokkos::tanh(x); }

/// The error function to 1e-7: a polynomial near 0, and 1 − e^polynomial elsewhere. Coefficients: N. Juffa,
/// "erff() with maximum error below 1 ulp", 2016.
KOKKOS_INLINE_FUNCTION float fast_erf(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float t = magnitude > 4.0f ? 4.0f : magnitude;  // where it is 1; NaN stays NaN
  const float s = t * t;
  float exponent = (-1.72853470e-5f * t + 3.83197126e-4f) * s + (-3.88396438e-3f * t + 2.42546219e-2f);
  exponent = exponent * t - 1.06777877e-1f;
  exponent = exponent * t - 6.34846687e-1f;
  exponent = exponent * t - 1.28717512e-1f;
  const float tail = 1.0f - fast_exp(exponent * t - t);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float result = t > 0.921875f ? tail : p * t + t;
  return x < 0.0f ? -result : result;
}
KOKKOS_INLINE_FUNCTION double fast_erf(double x) { return Kokkos::erf(x); }

/// Φ(x) of the normal distribution.
template <class C>
KOKKOS_INLINE_FUNCTION C normal_probability(C x) {
  return C(0.5) * (C(1) + fast_erf(x * static_cast<C>(0.70710678118654752440)));
}

}  // namespace lockstep
