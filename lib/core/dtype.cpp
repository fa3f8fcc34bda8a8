// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/dtype.hpp"

#include "base/error.hpp"

namespace lockstep {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::u8: return 1;
    case DType::i32: return 4;
    case DType::i64: return 8;
    case DType::bf16: return 2;
    case DType::f16: return 2;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::u8: return "u8";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
  }
  return "";
}

void refuse_dtype(DType dtype, std::string_view wanted) {
  throw Error(ExitStatus::internal, fmt::format("a tensor has type {}, but {} is needed", name_of(dtype), wanted));
}

}  // namespace lockstep
