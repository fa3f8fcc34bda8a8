// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/dataset.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// What `lockstep check --data` finds.
struct DataScan {
  std::string text;     ///< a line for each dataset
  bool is_bad = false;  ///< numbers that are not finite, classes or row numbers out of range
};

/// Reads all examples of a dataset. `classes`: of the network; 0: its targets are values. `tables`: see
/// Graph::tables_of_data.
DataScan scan(const Dataset& data, std::int64_t classes, std::int64_t ignored, std::span<const std::int64_t> tables);

/// Scans all datasets of a deck.
DataScan scan_data(const RunConfig& config);

}  // namespace lockstep
