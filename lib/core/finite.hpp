// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_Macros.hpp>
#include <cstdint>

namespace lockstep {

/// Whether a number is infinite or not a number: whether all bits of its exponent are set. (Compilers that are told that
/// there are no such numbers leave that alone.)
KOKKOS_INLINE_FUNCTION bool is_nonfinite(float x) {
  return (Kokkos::bit_cast<std::uint32_t>(x) & 0x7F800000u) == 0x7F800000u;
}
KOKKOS_INLINE_FUNCTION bool is_nonfinite(double x) {
  constexpr std::uint64_t exponent = 0x7FF0000000000000u;
  return (Kokkos::bit_cast<std::uint64_t>(x) & exponent) == exponent;
}

}  // namespace lockstep
