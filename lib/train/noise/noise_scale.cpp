// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/noise/noise_scale.hpp"

#include <cmath>
#include <utility>

namespace lockstep {

void NoiseScale::describe_state(StateFields& fields) {
  if (fields.restores()) discard_step();
  fields.array("noise", [this](StateFields& entries) {
    entries.real("trace", average_.trace);
    entries.real("square", average_.square);
    entries.real("weight", average_.weight);
  });
}

void NoiseScale::discard_step() {
  square_ = small_ = 0;
  batches_ = 0;
}

void NoiseScale::end_small_batch(std::int64_t examples) {
  const double square = std::exchange(square_, 0.0);
  if (examples == 0) return;
  small_ += square / static_cast<double>(examples);
  ++batches_;
}

void NoiseScale::end_step(const Communicator& comm, double square, std::int64_t examples, double scale) {
  double sums[2] = {std::exchange(small_, 0.0) / (scale * scale), static_cast<double>(std::exchange(batches_, 0))};
  comm.all_reduce_sum(sums);
  const auto& [small, batches] = sums;
  if (batches < 2 || !std::isfinite(small) || !std::isfinite(square)) return;
  const double n = static_cast<double>(examples), large = square / (scale * scale) / n;
  const double trace = (small - large) / (batches - 1);
  constexpr double newest = 0.02;  // weight of the newest measurement: the averages are over the last 50 or so
  average_.trace += newest * (trace - average_.trace);
  average_.square += newest * ((large - trace) / n - average_.square);
  average_.weight += newest * (1 - average_.weight);
}

std::optional<double> NoiseScale::value() const {
  if (average_.weight == 0 || average_.square <= 0 || average_.trace <= 0) return std::nullopt;
  return average_.trace / average_.square;
}

}  // namespace lockstep
