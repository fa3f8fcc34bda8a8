// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "run/run_config.hpp"

namespace lockstep::test {

/// A deck as text, with what is not of interest here filled in.
RunConfig read_run_config(const std::string& deck, const std::string& output_dir);

struct Curve {
  std::vector<double> losses;      ///< means over the global batches
  std::vector<double> parameters;  ///< at the end
};

/// Trains without ranks, pieces, buckets or a loader thread: each step computes the whole global
/// batch at once, on every rank for itself.
Curve train_serially(const RunConfig& config, int steps);

}  // namespace lockstep::test
