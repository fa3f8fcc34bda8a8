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
  std::int64_t padding = 0;  ///< never taken by max; counted as zeros by average, as in PyTorch

  /// Number of windows along `extent` pixels.
  std::int64_t count(std::int64_t extent) const { return (extent + 2 * padding - kernel) / stride + 1; }
};

struct PoolingShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  ///< extents of x
  PoolingWindows vertical, horizontal;

  std::int64_t out_h() const { return vertical.count(h); }
  std::int64_t out_w() const { return horizontal.count(w); }
};

/// x [n, h, w, c], y [n, out_h, out_w, c]. For max, `winner` (u8, shaped like y, may be empty) receives the index of
/// the maximum in its window, counted along rows: the first of equal ones, as in PyTorch. NaN wins.
void pooling_forward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& x,
                     const Tensor& y, const Tensor& winner);

/// Each pixel of dx gathers from the windows that cover it, in a fixed order, so the result is deterministic.
void pooling_backward(const ExecSpace& space, PoolingKind kind, const PoolingShape& shape, const Tensor& winner,
                      const Tensor& dy, const Tensor& dx);

/// The largest number of positions in a window that the u8 of `winner` can distinguish.
inline constexpr std::int64_t max_pool_places = 256;

/// y [n, c]: the mean over the pixels of x [n, h, w, c], or over the positions of x [n, t, c].
void global_average_forward(const ExecSpace& space, const Tensor& x, const Tensor& y);
/// Distributes dy evenly over the pixels of dx.
void global_average_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dx);

/// y [n, factor·h, factor·w, c]: each pixel of x [n, h, w, c] is repeated factor × factor times.
void upsample_forward(const ExecSpace& space, std::int64_t factor, const Tensor& x, const Tensor& y);
/// Each pixel of dx is the sum of its copies in dy, row by row.
void upsample_backward(const ExecSpace& space, std::int64_t factor, const Tensor& dy, const Tensor& dx);

}  // namespace lockstep
