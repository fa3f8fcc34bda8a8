// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Freedoms that a library may use to be faster; part of what a product is planned for.
struct LibraryChoices {
  bool tf32 = false;          ///< may round fp32 operands to 10 bits of mantissa for matrix units
  bool deterministic = true;  ///< must give the same bits in every run: no atomic additions

  auto operator<=>(const LibraryChoices&) const = default;
};

}  // namespace lockstep
