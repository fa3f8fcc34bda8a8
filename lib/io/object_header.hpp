// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/raw_file.hpp"

namespace lockstep {

/// Representation of addresses in an HDF5 file.
struct AddressFormat {
  std::uint64_t base = 0;  ///< offset of address 0 in the file
  std::size_t address_bytes = 8, length_bytes = 8;
};

/// True if the dataset whose object header is at `address` needs version 4 of the layout message: chunks with an index
/// other than a version-1 B-tree, or a virtual dataset. HDF5 (1.14.5) trusts what a damaged file says there, and
/// crashes when it opens the dataset, so this is checked before. False if there is no header or no such message, which
/// HDF5 itself detects. (Object headers of versions 1 and 2: "HDF5 File Format Specification", version 3.0, IV.A.)
bool has_new_layout(const RawFile& file, const AddressFormat& format, std::uint64_t address);

}  // namespace lockstep
