// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/execution.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep::test {

/// Reads a deck, given as text, and fills in what tests do not care about.
RunConfig read_run_config(const std::string& deck, const std::string& output_dir);

/// True if these keys are for sums in memory that hosts share, in a build for devices, whose ranks send messages.
inline bool are_for_hosts_alone(std::string_view parallel) {
  return memory_is_separate &&
         (parallel.find("between_nodes") != parallel.npos || parallel.find("leaders") != parallel.npos);
}

struct Curve {
  std::vector<double> losses;      ///< mean loss of each global batch
  std::vector<double> parameters;  ///< after the last step
};

/// Trains without communication, micro-batches, buckets or a loader thread: every rank computes the whole global batch
/// of each step at once, by itself.
Curve train_serially(const RunConfig& config, int steps);

}  // namespace lockstep::test
