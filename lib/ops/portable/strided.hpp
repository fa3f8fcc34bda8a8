// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "ops/gemm.hpp"

namespace lockstep {

/// A matrix whose element (i, j) is data[i·row + j·column]; it may be a transposed one.
template <class T>
struct Strided {
  const T* data;
  std::int64_t row, column;
};

template <class T>
Strided<T> strided(const MatrixOperand& operand) {
  const auto* data = static_cast<const T*>(operand.data);
  if (operand.transpose == Transpose::yes) return {data, 1, operand.stride};
  return {data, operand.stride, 1};
}

/// packed[j] = from[j·stride] for j < width; 0 from `count` on.
template <int width, class T>
KOKKOS_INLINE_FUNCTION void pack_line(const T* from, std::int64_t stride, std::int64_t count, T* packed) {
  if (count >= width && stride == 1) {
    for (int j = 0; j < width; ++j) packed[j] = from[j];
  } else if (count >= width) {
    for (int j = 0; j < width; ++j) packed[j] = from[j * stride];
  } else {
    for (int j = 0; j < width; ++j) packed[j] = j < count ? from[j * stride] : T(0);
  }
}

}  // namespace lockstep
