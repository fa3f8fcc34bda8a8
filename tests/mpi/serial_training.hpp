// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/execution.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep::test {

/// A deck as text, with what is not of interest here filled in.
RunConfig read_run_config(const std::string& deck, const std::string& output_dir);

/// Whether these keys are of sums in the memory that hosts share, while ranks of devices that divide sums send
/// messages.
inline bool are_for_hosts_alone(std::string_view parallel) {
  return memory_is_separate &&
         (parallel.find("between_nodes") != parallel.npos || parallel.find("leaders") != parallel.npos);
}

struct Curve {
  std::vector<double> losses;      ///< means over the global batches
  std::vector<double> parameters;  ///< at the end
};

/// Trains without ranks, pieces, buckets or a loader thread: each step computes the whole global
/// batch at once, on every rank for itself.
Curve train_serially(const RunConfig& config, int steps);

}  // namespace lockstep::test
