// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// y = x, with each element rounded to y's floating-point type.
void convert(const ExecSpace& space, const Tensor& x, const Tensor& y);

/// y += x, in y's type.
void add_converted(const ExecSpace& space, const Tensor& x, const Tensor& y);

/// Copies inputs into a row that holds them side by side, and back: columns first … first + c − 1 of `wide` [rows,
/// wide_c] are `narrow` [rows, c]. Columns are the last extent of each.
void concat_place(const ExecSpace& space, const Tensor& narrow, std::int64_t first, const Tensor& wide);
void concat_take(const ExecSpace& space, const Tensor& wide, std::int64_t first, const Tensor& narrow);

/// y [n, columns, rows] (+)= the transpose of each matrix of x [n, rows, columns]. y has x's type or its master_dtype.
/// x and y must not overlap.
void transpose(const ExecSpace& space, const Tensor& x, const Tensor& y, Store store = Store::replace);

/// Pairs elements of two tensors, x and y, at the points (i0, i1, …) of a grid. A point is element x_first + Σ
/// ik·(x_step of axis k) of x, and likewise in y. With a step of 0, all points along that axis share an element.
struct StridedGrid {
  static constexpr int max_axes = Shape::max_rank;

  struct Axis {
    std::int64_t extent, x_step, y_step;
  };
  Axis axis[max_axes] = {};  ///< outermost first
  int axes = 0;
  std::int64_t x_first = 0, y_first = 0;

  void add(std::int64_t extent, std::int64_t x_step, std::int64_t y_step) { axis[axes++] = {extent, x_step, y_step}; }
  /// Returns the grid with x and y exchanged.
  StridedGrid reversed() const {
    StridedGrid grid = *this;
    for (Axis& a : grid.axis) std::swap(a.x_step, a.y_step);
    std::swap(grid.x_first, grid.y_first);
    return grid;
  }
};

/// y = factor · x at each point. No two points may share an element of y. x and y have the same type and must not
/// overlap.
void strided_copy(const ExecSpace& space, const StridedGrid& grid, const Tensor& x, const Tensor& y, double factor = 1);
/// y = factor · the sum of x over the axes whose y_step is 0, in a fixed order.
void strided_sum(const ExecSpace& space, const StridedGrid& grid, double factor, const Tensor& x, const Tensor& y);

}  // namespace lockstep
