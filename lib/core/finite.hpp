// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_Macros.hpp>
#include <cstdint>

namespace lockstep {

/// True if the number is infinite or NaN, that is, if all its exponent bits are set. Works on the bits, so that it also
/// holds with -ffinite-math-only.
KOKKOS_INLINE_FUNCTION bool is_nonfinite(float x) {
  return (Kokkos::bit_cast<std::uint32_t>(x) & 0x7F800000u) == 0x7F800000u;
}
KOKKOS_INLINE_FUNCTION bool is_nonfinite(double x) {
  constexpr std::uint64_t exponent = 0x7FF0000000000000u;
  return (Kokkos::bit_cast<std::uint64_t>(x) & exponent) == exponent;
}

}  // namespace lockstep
