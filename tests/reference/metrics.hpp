// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::reference {

/// Rows whose class has one of the k largest outputs; of equals the first ones count.
inline double hits(std::size_t k, std::size_t classes, const std::vector<double>& outputs,
                   const std::vector<std::int32_t>& targets) {
  double count = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    std::vector<double> left(outputs.begin() + static_cast<std::ptrdiff_t>(row * classes),
                             outputs.begin() + static_cast<std::ptrdiff_t>((row + 1) * classes));
    for (std::size_t place = 0; place < k; ++place) {
      const auto largest = std::max_element(left.begin(), left.end());
      if (largest - left.begin() == targets[row]) count += 1;
      *largest = -INFINITY;
    }
  }
  return count;
}

/// R², mean over the outputs, in two passes.
inline double r_squared(std::size_t outputs, const std::vector<double>& y, const std::vector<double>& t) {
  const std::size_t n = t.size() / outputs;
  double total = 0;
  for (std::size_t k = 0; k < outputs; ++k) {
    double mean = 0, errors = 0, variation = 0;
    for (std::size_t i = 0; i < n; ++i) mean += t[i * outputs + k];
    mean /= static_cast<double>(n);
    for (std::size_t i = k; i < t.size(); i += outputs) {
      errors += (t[i] - y[i]) * (t[i] - y[i]);
      variation += (t[i] - mean) * (t[i] - mean);
    }
    total += variation > 0 ? 1 - errors / variation : errors == 0 ? 1 : 0;
  }
  return total / static_cast<double>(outputs);
}

}  // namespace lockstep::reference
