// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::fuzz {

/// Makes the checksums of an HDF5 file's superblock (version 2) and object headers (version 2, and what continues them)
/// hold again: without this hardly a mutation of such a file would come past its first bytes.
void mend_hdf5_checksums(std::span<std::uint8_t> bytes);

/// From now on the library keeps what it needs for each open file (half a megabyte): to get it from the system again
/// and again would be most of the time.
void keep_hdf5_memory();

}  // namespace lockstep::fuzz
