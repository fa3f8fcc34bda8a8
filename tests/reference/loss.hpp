// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::reference {

/// Sums over examples, and the gradient of the sum.
struct LossResult {
  double loss = 0, correct = 0;
  std::vector<double> gradient;
};

inline LossResult cross_entropy(double smoothing, std::size_t classes, const std::vector<double>& logits,
                                const std::vector<std::int32_t>& targets) {
  LossResult result;
  for (std::size_t n = 0; n < targets.size(); ++n) {
    const double* z = logits.data() + n * classes;
    const double largest = *std::max_element(z, z + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(z[k] - largest);
    for (std::size_t k = 0; k < classes; ++k) {
      const double p = std::exp(z[k] - largest) / sum;
      const double q = (static_cast<std::int32_t>(k) == targets[n] ? 1 - smoothing : 0) +
                       smoothing / static_cast<double>(classes);
      result.loss -= q * (z[k] - largest - std::log(sum));
      result.gradient.push_back(p - q);
    }
    result.correct += std::max_element(z, z + classes) - z == targets[n];
  }
  return result;
}

inline LossResult squared_error(std::size_t outputs, const std::vector<double>& y, const std::vector<double>& t) {
  LossResult result;
  for (std::size_t i = 0; i < y.size(); ++i) {
    result.loss += (y[i] - t[i]) * (y[i] - t[i]) / static_cast<double>(outputs);
    result.gradient.push_back(2 * (y[i] - t[i]) / static_cast<double>(outputs));
  }
  return result;
}

}  // namespace lockstep::reference
