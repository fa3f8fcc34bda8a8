// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <functional>

#include "io/hdf5.hpp"

namespace lockstep {

/// Throws cannot_create when there is such a file already and it is not to be replaced. Importers
/// ask this first, before they read anything.
void check_output(const std::filesystem::path& output, bool overwrite);

/// Makes the HDF5 file `output` all at once: nothing is left of it when `write` throws.
void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write);

}  // namespace lockstep
