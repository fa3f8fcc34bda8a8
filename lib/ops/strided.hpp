// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor.hpp"

namespace lockstep {

/// Pairs numbers of two tensors, x and y: those at the points (i0, i1, …) of a grid. A point stands at
/// x_first + Σ ik·(x_step of axis k) in x, and likewise in y. Where a step is 0, all points along that axis share a
/// number.
struct StridedGrid {
  static constexpr int max_axes = Shape::max_rank;

  struct Axis {
    std::int64_t extent, x_step, y_step;
  };
  Axis axis[max_axes] = {};  ///< outermost first
  int axes = 0;
  std::int64_t x_first = 0, y_first = 0;

  void add(std::int64_t extent, std::int64_t x_step, std::int64_t y_step) { axis[axes++] = {extent, x_step, y_step}; }
  /// x and y in each other's place.
  StridedGrid reversed() const {
    StridedGrid grid = *this;
    for (Axis& a : grid.axis) std::swap(a.x_step, a.y_step);
    std::swap(grid.x_first, grid.y_first);
    return grid;
  }
};

/// y = factor · x at each point. No two points share a number of y. x and y are of one type, and do not overlap.
void strided_copy(const ExecSpace& space, const StridedGrid& grid, const Tensor& x, const Tensor& y, double factor = 1);
/// y = factor · the sum of x over those axes whose y_step is 0, in an order that is always the same.
void strided_sum(const ExecSpace& space, const StridedGrid& grid, double factor, const Tensor& x, const Tensor& y);

}  // namespace lockstep
