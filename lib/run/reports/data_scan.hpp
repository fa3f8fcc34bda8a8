// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/dataset.hpp"
#include "nn/loss.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// Result of `lockstep check --data`.
struct DataScan {
  std::string text;     ///< a line for each dataset
  bool is_bad = false;  ///< there are numbers that are not finite, or classes, targets or row numbers out of range
};

/// Reads and checks all examples of a dataset. `classes`: number of classes of the network; 0: targets are values.
/// `tables`: see Graph::tables_of_data.
DataScan scan(const Dataset& data, const Loss& loss, std::int64_t classes, std::span<const std::int64_t> tables);

/// Scans all datasets of a deck.
DataScan scan_data(const RunConfig& config);

}  // namespace lockstep
