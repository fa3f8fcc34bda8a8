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

/// Opens the examples in a group of a dataset file ("/train"; "" for the file itself): its datasets inputs and targets.
/// Null if it has neither. Throws bad_data for every departure from the layout in docs/user/data.md, and says what it
/// is. Collective over the ranks of `reading`.
std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const std::string& group,
                                           const SharedReading& reading = {},
                                           std::size_t memory_limit = default_memory_limit);

/// Opens a dataset of inputs alone ("/train/inputs"), with targets of the shape {0}. Collective.
std::unique_ptr<Dataset> open_hdf5_inputs(std::shared_ptr<const Hdf5File> file, const std::string& dataset,
                                          const SharedReading& reading = {},
                                          std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
