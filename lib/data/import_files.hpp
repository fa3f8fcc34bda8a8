// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

/// Opens a file to import. Throws missing_file; throws bad_data for folders, and for pipes and devices, which have no
/// length and can be read only once.
RawFile open_input(const std::string& path);

/// Writes the HDF5 file `output` atomically: nothing is left of it if `write` throws.
void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write);

}  // namespace lockstep
