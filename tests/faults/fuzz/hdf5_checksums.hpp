// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::fuzz {

/// Makes the checksums of an HDF5 file's superblock (version 2) and object headers (version 2) hold again: without
/// this hardly a mutation of such a file would come past its first bytes.
void mend_hdf5_checksums(std::vector<std::uint8_t>& bytes);

}  // namespace lockstep::fuzz
