// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/noise.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

/// The maximum of P draws is below x with probability F(x)^P, so its mean is the integral of Q(u^(1/P)) over u, where Q
/// is the quantile function. On each line of Q that integral is elementary, as with s = u^(1/P),
/// ∫ s P s^(P−1) ds = P / (P + 1) · s^(P+1).
double slowest_of(std::span<const NoisePoint> noise, std::int64_t ranks) {
  if (noise.empty()) return 1;
  const auto n = static_cast<double>(ranks);
  double mean = noise.front().factor * std::pow(noise.front().share, n) +
                noise.back().factor * (1 - std::pow(noise.back().share, n));
  for (std::size_t i = 1; i < noise.size(); ++i) {
    const NoisePoint &a = noise[i - 1], &b = noise[i];
    if (a.share == b.share) continue;
    const double slope = (b.factor - a.factor) / (b.share - a.share);
    mean += (a.factor - slope * a.share) * (std::pow(b.share, n) - std::pow(a.share, n)) +
            slope * n / (n + 1) * (std::pow(b.share, n + 1) - std::pow(a.share, n + 1));
  }
  return mean;
}

std::vector<NoisePoint> noise_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto last = static_cast<double>(seconds.size() - 1);
  const double median = seconds[seconds.size() / 2];
  std::vector<NoisePoint> noise;
  for (const double share : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0})
    if (share == 1 || (1 - share) * last >= 1)
      noise.push_back({share, seconds[static_cast<std::size_t>(std::lround(share * last))] / median});
  return noise;
}

}  // namespace lockstep
