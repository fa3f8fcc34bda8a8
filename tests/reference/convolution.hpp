// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <vector>

#include "ops/products/products.hpp"

// Convolutions as their definition says, in fp64: what every provider is compared with.
namespace lockstep::reference {

using Values = std::vector<double>;

/// Calls visit(index of x, index of weight, index of y) for every multiply-add of the convolution.
template <class Visit>
void for_each_tap(const ConvolutionShape& s, Visit visit) {
  const std::int64_t group_c = s.c / s.groups, group_filters = s.filters / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t oh = 0; oh < s.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < s.out_w(); ++ow)
        for (std::int64_t o = 0; o < s.filters; ++o)
          for (std::int64_t i = 0; i < group_c; ++i)
            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                const std::int64_t h = oh * s.stride + kh - s.pad_top, w = ow * s.stride + kw - s.pad_left;
                if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
                const std::int64_t c = o / group_filters * group_c + i;
                visit(static_cast<std::size_t>(((n * s.h + h) * s.w + w) * s.c + c),
                      static_cast<std::size_t>(((o * group_c + i) * s.kernel_h + kh) * s.kernel_w + kw),
                      static_cast<std::size_t>(((n * s.out_h() + oh) * s.out_w() + ow) * s.filters + o));
              }
}

/// An empty bias stands for zeros.
inline Values convolution_forward(const ConvolutionShape& s, const Values& x, const Values& weight,
                                  const Values& bias) {
  Values y(static_cast<std::size_t>(s.n * s.out_h() * s.out_w() * s.filters));
  for_each_tap(s, [&](std::size_t ix, std::size_t iw, std::size_t iy) { y[iy] += x[ix] * weight[iw]; });
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!bias.empty()) y[i] += bias[i % static_cast<std::size_t>(s.filters)];
    if (s.activation == Activation::relu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

inline Values convolution_backward_data(const ConvolutionShape& s, const Values& dy, const Values& weight) {
  Values dx(static_cast<std::size_t>(s.n * s.h * s.w * s.c));
  for_each_tap(s, [&](std::size_t ix, std::size_t iw, std::size_t iy) { dx[ix] += dy[iy] * weight[iw]; });
  return dx;
}

/// Adds to dweight.
inline void convolution_backward_weight(const ConvolutionShape& s, const Values& x, const Values& dy, Values& dweight) {
  for_each_tap(s, [&](std::size_t ix, std::size_t iw, std::size_t iy) { dweight[iw] += dy[iy] * x[ix]; });
}

}  // namespace lockstep::reference
