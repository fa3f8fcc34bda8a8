// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/float16.hpp"

namespace lockstep {

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

}  // namespace lockstep
