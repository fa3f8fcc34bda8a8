// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <cstdint>

// Elementary functions without branches and calls, so that loops over floats vectorize, which they do not with the C
// library's functions. Values are selected by their bits, since compilers turn `?:` between floats into branches.
// Doubles use the library's functions.
namespace lockstep {

namespace fast {
inline constexpr std::int32_t infinity = 0x7F800000, sign = static_cast<std::int32_t>(0x80000000u);

KOKKOS_INLINE_FUNCTION std::int32_t bits(float x) { return Kokkos::bit_cast<std::int32_t>(x); }
KOKKOS_INLINE_FUNCTION float number(std::int32_t x) { return Kokkos::bit_cast<float>(x); }
/// All bits set if `chosen`, else none.
KOKKOS_INLINE_FUNCTION std::int32_t mask(bool chosen) { return -static_cast<std::int32_t>(chosen); }
}  // namespace fast

/// x if |x| is at most the limit, else 0; 0 for NaN.
KOKKOS_INLINE_FUNCTION float zero_beyond(float limit, float x) {
  return fast::number(fast::bits(x) & fast::mask((fast::bits(x) & ~fast::sign) <= fast::bits(limit)));
}
KOKKOS_INLINE_FUNCTION double zero_beyond(double limit, double x) { return Kokkos::abs(x) <= limit ? x : 0.0; }

/// e^x to 2 units in the last place: 0 below −104, infinite above 88.72, with subnormal results.
KOKKOS_INLINE_FUNCTION float vector_exp(float x) {
  // Clamps x to ±104, where results are 0 and infinite; NaN stays NaN. Bits of positive floats are ordered like their
  // values.
  constexpr std::int32_t limit = 0x42D00000;  // 104
  const std::int32_t magnitude = fast::bits(x) & ~fast::sign;
  const std::int32_t clamped = (limit & fast::mask(magnitude > limit)) | (magnitude & ~fast::mask(magnitude > limit)) |
                               (magnitude & fast::mask(magnitude > fast::infinity));
  x = fast::number(clamped | (fast::bits(x) & fast::sign));
  // x = k·ln 2 + r, |r| ≤ ln 2 / 2. Adding 1.5·2²³ rounds to an integer and leaves it in the lowest bits; ln 2 in two
  // parts makes r exact (Cody & Waite, "Software manual for the elementary functions", 1980).
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
  // 2^k as two factors, since 2^k itself may not be a normal number.
  const std::int32_t whole = fast::bits(shifted) - 0x4B400000;
  const std::int32_t half = whole >> 1;
  return p * fast::number((half + 127) << 23) * fast::number((whole - half + 127) << 23);
}
/// e^x at least as accurate as vector_exp. GPUs use their library, which has instructions for it.
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  KOKKOS_IF_ON_HOST((return vector_exp(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::exp(x);))
}
KOKKOS_INLINE_FUNCTION double fast_exp(double x) { return Kokkos::exp(x); }

KOKKOS_INLINE_FUNCTION float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }
KOKKOS_INLINE_FUNCTION double fast_sigmoid(double x) { return 1.0 / (1.0 + Kokkos::exp(-x)); }

/// tanh to 3 units in the last place.
KOKKOS_INLINE_FUNCTION float fast_tanh(float x) {
  // Small values use a polynomial (Cephes, tanhf), since 1 − 2 / (e^2x + 1) cancels there.
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
  const std::int32_t is_small = fast::mask(magnitude < 0x3F200000);  // |x| < 0.625
  return fast::number((fast::bits(small) & is_small) | ((fast::bits(large) | sign) & ~is_small));
}
KOKKOS_INLINE_FUNCTION double fast_tanh(double x) { return Kokkos::tanh(x); }

/// e^x − 1 = tanh(x/2) (e^x + 1), which does not cancel for small x.
KOKKOS_INLINE_FUNCTION float fast_expm1(float x) { return fast_tanh(0.5f * x) * (fast_exp(x) + 1.0f); }
KOKKOS_INLINE_FUNCTION double fast_expm1(double x) { return Kokkos::expm1(x); }

/// The normal distribution at x: Φ(x) = (1 + erf(x/√2))/2 and its density φ(x) = e^(−x²/2)/√(2π).
template <class C>
struct Normal {
  C probability, density;
};

/// Uses Φ(−|x|) = φ(x)·√(2π)·t·P(t) with t = 1/(1 + |x|/√8), which tends to 0 without cancellation. The polynomial was
/// fitted to e^(x²/2)·Φ(−x)/t for 0 ≤ x ≤ 13.4 with a relative error of 4e-8. The error of Φ is 2e-7, that of its tails
/// 6e-6 relative.
KOKKOS_INLINE_FUNCTION Normal<float> fast_normal(float x) {
  const float magnitude = fast::number(fast::bits(x) & ~fast::sign);
  const float t = 1.0f / (1.0f + 0.35355339f * magnitude);
  float p = -0.0294454569f;
  p = p * t + 0.141851298f;
  p = p * t - 0.242692455f;
  p = p * t + 0.1379897f;
  p = p * t - 0.0125892213f;
  p = p * t + 0.101035055f;
  p = p * t + 0.121630475f;
  p = p * t + 0.141176745f;
  p = p * t + 0.141043838f;
  const float power = fast_exp(-0.5f * x * x);
  const float tail = power * t * p;
  const std::int32_t negative = fast::bits(x) >> 31;  // all bits set, or none
  return {fast::number((fast::bits(tail) & negative) | (fast::bits(1.0f - tail) & ~negative)), 0.39894228f * power};
}
KOKKOS_INLINE_FUNCTION Normal<double> fast_normal(double x) {
  return {0.5 * Kokkos::erfc(-0.70710678118654752440 * x), 0.39894228040143267794 * Kokkos::exp(-0.5 * x * x)};
}

}  // namespace lockstep
