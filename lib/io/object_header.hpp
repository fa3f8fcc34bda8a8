// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/raw_file.hpp"

namespace lockstep {

/// How an HDF5 file names places in it.
struct AddressFormat {
  std::uint64_t base = 0;  ///< in the file, of address 0
  std::size_t address_bytes = 8, length_bytes = 8;
};

/// Whether the dataset whose object header is at `address` is stored in a way that only version 4 of the layout message
/// knows: chunks with another index than a tree of version 1, or parts of other datasets. HDF5 (1.14.5) believes what a
/// damaged file says there, and crashes over it while it opens the dataset: this is asked before. Where there is no
/// header or no such message, HDF5 finds that by itself: false. (Object headers of versions 1 and 2: "HDF5 File Format
/// Specification", version 3.0, IV.A.)
bool has_new_layout(const RawFile& file, const AddressFormat& format, std::uint64_t address);

}  // namespace lockstep
