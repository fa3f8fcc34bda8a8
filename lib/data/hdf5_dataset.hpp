// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "data/shared_reading.hpp"
#include "io/hdf5.hpp"

namespace lockstep {

/// Inputs up to this size are held in memory (and their checksum is verified); larger ones are
/// read from the file as they are needed.
inline constexpr std::size_t default_memory_limit = std::size_t{2} << 30;

/// The examples of a dataset file's group ("/train"; "" for the file itself): its datasets inputs and targets. Null when it has
/// neither. Every departure from the layout in docs/user/data.md throws bad_data, saying what it is. Collective (SharedReading).
std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const std::string& group,
                                           const SharedReading& reading = {},
                                           std::size_t memory_limit = default_memory_limit);

/// A dataset of inputs alone ("/train/inputs"): targets of the shape {0}. Collective.
std::unique_ptr<Dataset> open_hdf5_inputs(std::shared_ptr<const Hdf5File> file, const std::string& dataset,
                                          const SharedReading& reading = {},
                                          std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
