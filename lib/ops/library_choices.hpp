// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// What a library may do to be faster; part of what a product is planned for.
struct LibraryChoices {
  bool tf32 = false;          ///< round fp32 operands to 10 bits of mantissa, where there are matrix units for that
  bool deterministic = true;  ///< the same bits in every run: no sums by atomic additions

  auto operator<=>(const LibraryChoices&) const = default;
};

}  // namespace lockstep
