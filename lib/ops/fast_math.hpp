// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <cstdint>

#include "core/execution.hpp"

// Functions that loops over floats can compute in vectors: without branches and calls. What a device
// has in hardware, and what is of double precision, is the standard functions'.
namespace lockstep {

/// e^x for x ≤ 0, to 1 in the last place; 0 below the normal numbers. Cody and Waite's reduction to ±ln(2)/2
/// and the polynomial of expf in the Cephes library (Moshier 1989).
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  if constexpr (!kernels_run_on_host) return Kokkos::exp(x);
  constexpr float shift = 12582912.0f;  // 1.5·2^23: its lowest bit counts ones
  const float shifted = x * 1.44269504f + shift;
  const float n = shifted - shift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float fraction = p * (r * r) + r + 1.0f;
  const float power = Kokkos::bit_cast<float>((Kokkos::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
  return x < -87.0f ? 0.0f : fraction * power;
}
KOKKOS_INLINE_FUNCTION double fast_exp(double x) { return Kokkos::exp(x); }

/// The error function to 1e-7: a polynomial near 0, and 1 − e^polynomial elsewhere. Coefficients: N. Juffa,
/// "erff() with maximum error below 1 ulp", 2016.
KOKKOS_INLINE_FUNCTION float fast_erf(float x) {
  if constexpr (!kernels_run_on_host) return Kokkos::erf(x);
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
