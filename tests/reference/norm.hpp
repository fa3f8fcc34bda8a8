// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace lockstep::reference {

/// Plain loops in f64 over x [rows, c].
struct Normalized {
  std::vector<double> mean, variance;  ///< biased
  std::vector<double> y, dy, dx;       ///< dy: after relu
  std::vector<double> dweight, dbias;
};

/// A group of numbers that have one mean: its gradient, from that of x̂.
inline void normalize_group(double epsilon, const std::vector<double>& x, const std::vector<double>& g,
                            std::size_t first, std::size_t step, std::size_t count, std::vector<double>& normal,
                            std::vector<double>& dx, double& mean, double& variance) {
  const auto n = static_cast<double>(count);
  mean = variance = 0;
  for (std::size_t i = 0; i < count; ++i) mean += x[first + i * step] / n;
  for (std::size_t i = 0; i < count; ++i) variance += (x[first + i * step] - mean) * (x[first + i * step] - mean) / n;
  const double inv_std = 1 / std::sqrt(variance + epsilon);
  double sum = 0, dot = 0;
  for (std::size_t i = first; i < first + count * step; i += step) {
    normal[i] = (x[i] - mean) * inv_std;
    sum += g[i] / n;
    dot += g[i] * normal[i] / n;
  }
  for (std::size_t i = first; i < first + count * step; i += step) dx[i] = inv_std * (g[i] - sum - normal[i] * dot);
}

inline Normalized layer_norm(double epsilon, const std::vector<double>& x, const std::vector<double>& weight,
                             const std::vector<double>& bias, const std::vector<double>& dy) {
  const std::size_t c = weight.size();
  Normalized r{.y = x, .dy = dy, .dx = x, .dweight = std::vector<double>(c), .dbias = std::vector<double>(c)};
  std::vector<double> normal(x.size()), g = dy;
  for (std::size_t i = 0; i < x.size(); ++i) g[i] *= weight[i % c];
  double mean, variance;
  for (std::size_t i = 0; i < x.size(); i += c) normalize_group(epsilon, x, g, i, 1, c, normal, r.dx, mean, variance);
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.y[i] = normal[i] * weight[i % c] + bias[i % c];
    r.dweight[i % c] += dy[i] * normal[i];
    r.dbias[i % c] += dy[i];
  }
  return r;
}

/// y = relu(x̂·weight + bias + addend) with relu and an addend (or an empty one) where wanted.
inline Normalized batch_norm(double epsilon, const std::vector<double>& x, const std::vector<double>& weight,
                             const std::vector<double>& bias, const std::vector<double>& addend, bool relu,
                             const std::vector<double>& dy) {
  const std::size_t c = weight.size();
  Normalized r{.mean = weight,
               .variance = weight,
               .y = x,
               .dy = dy,
               .dx = x,
               .dweight = std::vector<double>(c),
               .dbias = std::vector<double>(c)};
  std::vector<double> normal(x.size()), g = dy;
  for (std::size_t j = 0; j < c; ++j)
    normalize_group(epsilon, x, g, j, c, x.size() / c, normal, r.dx, r.mean[j], r.variance[j]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.y[i] = normal[i] * weight[i % c] + bias[i % c] + (addend.empty() ? 0 : addend[i]);
    if (relu && !(r.y[i] > 0)) r.y[i] = r.dy[i] = 0;
    r.dweight[i % c] += r.dy[i] * normal[i];
    r.dbias[i % c] += r.dy[i];
    g[i] = r.dy[i] * weight[i % c];
  }
  for (std::size_t j = 0; j < c; ++j)
    normalize_group(epsilon, x, g, j, c, x.size() / c, normal, r.dx, r.mean[j], r.variance[j]);
  return r;
}

}  // namespace lockstep::reference
