// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <vector>

#include "ops/products/products.hpp"

// Inner products as their definition says, in fp64: what every provider is compared with.
namespace lockstep::reference {

using Values = std::vector<double>;

/// An empty bias stands for zeros.
inline Values inner_product_forward(const InnerProductShape& s, const Values& x, const Values& weight,
                                    const Values& bias) {
  Values y(static_cast<std::size_t>(s.n * s.out));
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < s.in; ++i)
        sum += x[static_cast<std::size_t>(n * s.in + i)] * weight[static_cast<std::size_t>(o * s.in + i)];
      y[static_cast<std::size_t>(n * s.out + o)] = s.activation == Activation::relu ? std::max(sum, 0.0) : sum;
    }
  return y;
}

inline Values inner_product_backward_data(const InnerProductShape& s, const Values& dy, const Values& weight) {
  Values dx(static_cast<std::size_t>(s.n * s.in));
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.out; ++o)
      for (std::int64_t i = 0; i < s.in; ++i)
        dx[static_cast<std::size_t>(n * s.in + i)] += dy[static_cast<std::size_t>(n * s.out + o)] *
                                                      weight[static_cast<std::size_t>(o * s.in + i)];
  return dx;
}

/// Adds to dweight.
inline void inner_product_backward_weight(const InnerProductShape& s, const Values& x, const Values& dy,
                                          Values& dweight) {
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.out; ++o)
      for (std::int64_t i = 0; i < s.in; ++i)
        dweight[static_cast<std::size_t>(o * s.in + i)] += dy[static_cast<std::size_t>(n * s.out + o)] *
                                                           x[static_cast<std::size_t>(n * s.in + i)];
}

}  // namespace lockstep::reference
