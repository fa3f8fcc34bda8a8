// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"
#include "core/float16.hpp"

namespace lockstep {

/// Returns the class of the largest output, the first one of equal outputs; -1 if any output is NaN.
template <class T>
KOKKOS_INLINE_FUNCTION std::int64_t predicted_class(const T* outputs, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const auto value = Compute<T>(outputs[k]);
    if (value != value) return -1;
    if (value > Compute<T>(outputs[best])) best = k;
  }
  return best;
}

}  // namespace lockstep
