// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/shape.hpp"

namespace lockstep {

std::string to_string(const Shape& shape) {
  std::string text;
  for (const auto extent : shape.extents()) {
    if (!text.empty()) text += "×";
    text += std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

}  // namespace lockstep
