// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_BitManipulation.hpp>
#include <Kokkos_Macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace lockstep {

// 16-bit floating-point numbers as storage types; arithmetic is done in fp32. Kokkos' own half types are plain floats
// in host builds; these have the same bits everywhere. (On NVIDIA's GPUs the conversions are single instructions, which
// round alike.)

/// bfloat16, the upper half of a float: 8 exponent bits, 7 fraction bits.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  KOKKOS_INLINE_FUNCTION bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto x = Kokkos::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = x + 0x7FFFu + ((x >> 16) & 1u);
    bits = static_cast<std::uint16_t>((x & 0x7FFFFFFFu) > 0x7F800000u ? (x >> 16) | 0x40u : rounded >> 16);
#endif
  }
  KOKKOS_INLINE_FUNCTION operator float() const {
    return Kokkos::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits, largest value 65504.
struct half {
  std::uint16_t bits;

  half() = default;
  /// Rounds to nearest, ties to even, including subnormals; overflow gives infinity. Free of branches, so that loops
  /// vectorize (after F. Giesen, "float->half variants", 2012).
  KOKKOS_INLINE_FUNCTION half(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto x = Kokkos::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = x & 0x7FFFFFFFu;
    const std::uint32_t special = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    // Below 2^-14, adding 0.5 leaves the rounded fraction in the lowest bits.
    const std::uint32_t small = Kokkos::bit_cast<std::uint32_t>(Kokkos::bit_cast<float>(magnitude) + 0.5f) -
                                0x3F000000u;
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    const std::uint32_t finite = magnitude < (113u << 23) ? small : normal;
    bits = static_cast<std::uint16_t>((magnitude >= (143u << 23) ? special : finite) | ((x >> 16) & 0x8000u));
#endif
  }
  KOKKOS_INLINE_FUNCTION operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7FFFu) << 13;
    // Multiplying by 2^112 adjusts the exponent and normalizes subnormals.
    const float finite = Kokkos::bit_cast<float>(magnitude) * Kokkos::bit_cast<float>((254u - 15u) << 23);
    // Only integers are selected conditionally: a multiplication in one branch only would prevent vectorization.
    const std::uint32_t special = magnitude >= (0x7C00u << 13) ? 0x7F800000u : 0u;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    return Kokkos::bit_cast<float>(Kokkos::bit_cast<std::uint32_t>(finite) | special | sign);
#endif
  }
};

template <class T>
inline constexpr bool is_16_bit = std::is_same_v<T, bfloat16> || std::is_same_v<T, half>;

/// Type in which numbers stored as T are computed with.
template <class T>
using Compute = std::conditional_t<is_16_bit<T>, float, T>;

enum class DType { f32, f64, u8, i32, i64, bf16, f16 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, half>) return DType::f16;
  else {
    static_assert(std::is_same_v<T, std::int64_t>, "no DType for this type");
    return DType::i64;
  }
}

[[noreturn]] void refuse_dtype(DType dtype, std::string_view wanted);

constexpr bool is_16_bit_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Type of the parameters, gradients and statistics of a layer whose activations are of type `dtype`: fp32 for 16-bit
/// activations.
constexpr DType master_dtype(DType dtype) { return is_16_bit_type(dtype) ? DType::f32 : dtype; }

/// Calls f(T{}) with the C++ type for `dtype`. Only this function and `dispatch_master` turn a run-time type into a
/// compile-time one; kernels are function templates that f calls.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(bfloat16{});
    case DType::f16: return f(half{});
    default: refuse_dtype(dtype, "a floating-point type");
  }
}

/// Like `dispatch_float`, for numbers that are never 16-bit: parameters, their gradients, statistics.
template <class F>
decltype(auto) dispatch_master(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default: refuse_dtype(dtype, "f32 or f64");
  }
}

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
