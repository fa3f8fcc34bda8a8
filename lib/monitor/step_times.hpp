// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Durations of steps: their total, and quantiles of the newest ones (at most 4096).
class StepTimes {
 public:
  void add(double seconds) {
    recent_[static_cast<std::size_t>(count_ % window)] = seconds;
    ++count_;
    total_ += seconds;
  }
  std::int64_t count() const { return count_; }
  double total() const { return total_; }
  /// Returns the quantile `q` of the newest steps' seconds; 0 before the first step.
  double quantile(double q, std::int64_t newest = window) const {
    const auto n = std::min({count_, window, newest});
    if (n == 0) return 0;
    std::vector<double> sorted;
    for (auto i = count_ - n; i < count_; ++i) sorted.push_back(recent_[static_cast<std::size_t>(i % window)]);
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(n - 1) + 0.5);
    std::nth_element(sorted.begin(), at, sorted.end());
    return *at;
  }

 private:
  static constexpr std::int64_t window = 4096;
  std::array<double, window> recent_{};
  std::int64_t count_ = 0;
  double total_ = 0;
};

}  // namespace lockstep
