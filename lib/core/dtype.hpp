// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep {

enum class DType { f32, f64, u8, i32, i64 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else {
    static_assert(std::is_same_v<T, std::int64_t>, "no DType for this type");
    return DType::i64;
  }
}

[[noreturn]] void refuse_dtype(DType dtype, std::string_view wanted);

/// Calls f(T{}) with the floating-point type behind `dtype`. This is the one place where a
/// run-time type becomes a compile-time one; kernels stand in function templates that f calls.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default: refuse_dtype(dtype, "a floating-point type");
  }
}

}  // namespace lockstep
