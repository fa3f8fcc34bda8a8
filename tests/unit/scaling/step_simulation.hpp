// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scaling/prediction.hpp"

namespace lockstep::test {

/// The factor that a `share` of all steps stays below: interpolated linearly between the distribution's points, and
/// constant beyond them. 1 without points.
double noise_quantile(std::span<const NoisePoint> noise, double share);

/// The work of a rank in a step, in seconds of the median rank.
struct SimulatedWork {
  double forward = 0;                ///< the forward pass, and all else but the backward pass
  std::vector<double> layers;        ///< seconds of each layer of the backward pass
  std::vector<std::size_t> bucket;   ///< for each layer: number of buckets that are final after it
  std::vector<std::int64_t> counts;  ///< elements of each bucket, fp32
};

struct SimulatedCase {
  const Machine& machine;
  int ranks = 1;
  const Algorithm* algorithm = nullptr;  ///< null: hierarchical
  GradientSumConfig::Overlap overlap = GradientSumConfig::Overlap::none;
};

/// The mean seconds of `steps` steps by a discrete-event simulation in which every rank sends every message of the
/// real schedules, messages queue at each node's port to the network, and ranks draw their slowness from the machine's
/// noise.
double simulated_step(const SimulatedWork& work, const SimulatedCase& what, int steps);

}  // namespace lockstep::test
