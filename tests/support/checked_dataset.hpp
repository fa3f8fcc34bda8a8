// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checksum.hpp"

namespace lockstep::test {

/// Writes a dataset with its checksum.
inline void write_checked(Hdf5File& file, const std::string& dataset, const StoredType& type,
                          const std::vector<std::int64_t>& extents, const void* data) {
  file.write(dataset, type, extents, data);
  file.write_attribute(dataset, checksum_attribute, checksum_text(data, StoredArray{type, extents}.bytes()));
}

}  // namespace lockstep::test
