// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::fuzz {

/// Renews the checksums of an HDF5 file's superblock (version 2) and object headers (version 2, with continuations).
/// Without this, hardly any mutation of such a file would get past its first bytes.
void mend_hdf5_checksums(std::span<std::uint8_t> bytes);

/// From now on, HDF5 keeps the memory that it needs for an open file (half a megabyte), since allocating it anew each
/// time would take most of the time.
void keep_hdf5_memory();

}  // namespace lockstep::fuzz
