// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/element_range.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// Returns a view of the elements `range` of a flat tensor.
inline Tensor flat_part(const Tensor& numbers, ElementRange range) {
  return {static_cast<std::byte*>(numbers.data) + static_cast<std::size_t>(range.first) * size_of(numbers.dtype),
          numbers.dtype,
          {range.count}};
}

}  // namespace lockstep
