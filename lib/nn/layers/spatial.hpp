// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// Throws if `input`, the shape of one example, does not have `dimensions` (1 to 3) spatial extents followed by
/// channels.
inline void check_spatial(std::string_view type, int dimensions, const Shape& input) {
  static constexpr std::string_view names[] = {"sequences", "images", "volumes"},
                                    extents[] = {"T×C", "H×W×C; C = 1 for greyscale", "D×H×W×C"};
  const auto which = static_cast<std::size_t>(dimensions - 1);
  validate(input.rank() == dimensions + 1, ExitStatus::bad_deck,
           "{0} reads {1} ({2}), but its input is {3}; give it {1}", type, names[which], extents[which],
           to_string(input));
}

}  // namespace lockstep
