// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scaling/prediction.hpp"

namespace lockstep::test {

/// The factor that this share of all steps stays below: between the distribution's points along a line, beyond its
/// ends as at them.
double noise_quantile(std::span<const NoisePoint> noise, double share);

/// What a rank has to do in a step, in seconds of the median rank.
struct SimulatedWork {
  double forward = 0;                ///< and whatever else precedes the backward pass
  std::vector<double> layers;        ///< of the backward pass: seconds of each
  std::vector<std::size_t> bucket;   ///< of each layer: buckets that are final after it
  std::vector<std::int64_t> counts;  ///< elements of each bucket, fp32
};

struct SimulatedCase {
  const Machine& machine;
  int ranks = 1;
  const Algorithm* algorithm = nullptr;  ///< null: hierarchical
  ParallelConfig::Overlap overlap = ParallelConfig::Overlap::none;
};

/// Seconds of a step in which every rank sends every message of the real schedules: events in the order of time, a
/// queue at each node's port to the network, and ranks that draw how slow they are. The mean over `steps` steps.
double simulated_step(const SimulatedWork& work, const SimulatedCase& what, int steps);

}  // namespace lockstep::test
