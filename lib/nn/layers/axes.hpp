// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "config/fields.hpp"
#include "core/shape.hpp"

namespace lockstep {

// Helpers for layers whose axes of an example are chosen in the deck.

/// The largest number of axes of an example.
inline constexpr std::int64_t most_axes = 4;
inline constexpr Range axis_range{-most_axes, most_axes - 1};
inline constexpr std::string_view axis_help = "axis or axes of an example, from 0; negative ones count from the last";

/// Converts an axis as given in the deck to one from 0. Throws Error("problem (why); what to do") if the input has no
/// such axis.
inline int axis_of(const Shape& input, std::int64_t axis, std::string_view layer) {
  const std::int64_t rank = input.rank(), found = axis < 0 ? axis + rank : axis;
  validate(found >= 0 && found < rank, ExitStatus::bad_deck,
           "{} names axis {}, but its input, {}, has rank {}; choose an axis from 0 to {}", layer, axis,
           to_string(input), rank, rank - 1);
  return static_cast<int>(found);
}

/// Distance in elements between neighbours along `axis` in row-major order.
inline std::int64_t step_of(const Shape& shape, int axis) {
  std::int64_t step = 1;
  for (int inner = axis + 1; inner < shape.rank(); ++inner) step *= shape[inner];
  return step;
}

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
