// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/hdf5.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

/// Throws missing_file, or bad_data for a folder, and for pipes and devices, which have no length and are read only
/// once.
RawFile open_input(const std::string& path);

/// Makes the HDF5 file `output` all at once: nothing is left of it when `write` throws.
void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write);

}  // namespace lockstep
