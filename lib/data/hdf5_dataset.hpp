// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "io/hdf5.hpp"

namespace lockstep {

/// Inputs up to this size are held in memory (and their checksum is verified); larger ones are
/// read from the file as they are needed.
inline constexpr std::size_t default_memory_limit = std::size_t{2} << 30;

/// The examples below /train or /validation of a dataset file; null when the file has nothing
/// there. Every departure from the layout in docs/user/data.md throws bad_data, saying what it is.
std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const std::string& split,
                                           std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
