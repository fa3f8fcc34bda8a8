// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/balance/pass_times.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

std::vector<double> PassTimes::medians(const Communicator& ranks) const {
  std::array<double, kept> sorted = seconds_;
  const auto end = sorted.begin() + std::min(steps_, kept), middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  const std::vector<std::int64_t> all = ranks.all_gather(steps_ == 0 ? 0 : std::llround(1e12 * *middle));
  if (std::ranges::min(all) <= 0) return {};
  return {all.begin(), all.end()};
}

}  // namespace lockstep
