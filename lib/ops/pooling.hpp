// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

enum class PoolingKind { max, average };

/// Windows along one axis.
struct PoolingWindows {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< never taken by max; counted as zeros by average, as PyTorch does

  /// Along so many pixels.
  std::int64_t count(std::int64_t extent) const { return (extent + 2 * padding - kernel) / stride + 1; }
};

struct PoolingShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  ///< x
  PoolingWindows vertical, horizontal;

  std::int64_t out_h() const { return vertical.count(h); }
  std::int64_t out_w() const { return horizontal.count(w); }
};

/// x [n, h, w, c], y [n, out_h, out_w, c]. For max, `winner` (u8, as y, may be empty) receives the
/// place of the maximum in its window, counted along rows; the first of equal ones, as in PyTorch;
/// a NaN wins.
void pooling_forward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& x,
                     const Tensor& y, const Tensor& winner);

/// dx gathers from the windows that cover each pixel, in a fixed order: deterministic, one pass.
void pooling_backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& winner,
                      const Tensor& dy, const Tensor& dx);

/// The most places of a window that the winner's u8 tells apart.
inline constexpr std::int64_t max_pool_places = 256;

}  // namespace lockstep
