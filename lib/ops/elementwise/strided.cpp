// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/copies.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

struct Place {
  std::int64_t x, y;
};

/// The position of point `index` of the outer `axes` axes; points are numbered with the innermost axis running fastest.
KOKKOS_INLINE_FUNCTION Place place_of(const StridedGrid& grid, int axes, std::int64_t index) {
  Place place{grid.x_first, grid.y_first};
  for (int k = axes - 1; k >= 0; --k) {
    const StridedGrid::Axis& axis = grid.axis[k];
    const std::int64_t outer = row_of(index, axis.extent), i = index - outer * axis.extent;
    place.x += i * axis.x_step;
    place.y += i * axis.y_step;
    index = outer;
  }
  return place;
}

std::int64_t points(const StridedGrid& grid, int axes) {
  std::int64_t count = 1;
  for (int k = 0; k < axes; ++k) count *= grid.axis[k].extent;
  return count;
}

/// Describes the grid's points with as few axes as possible, but at least one: neighbouring axes that a single pair of
/// steps can traverse become one.
StridedGrid merged(const StridedGrid& grid) {
  StridedGrid result;
  result.x_first = grid.x_first;
  result.y_first = grid.y_first;
  for (int k = 0; k < grid.axes; ++k) {
    const StridedGrid::Axis& inner = grid.axis[k];
    if (result.axes > 0) {
      StridedGrid::Axis& outer = result.axis[result.axes - 1];
      if (outer.x_step == inner.extent * inner.x_step && outer.y_step == inner.extent * inner.y_step) {
        outer = {outer.extent * inner.extent, inner.x_step, inner.y_step};
        continue;
      }
    }
    result.axis[result.axes++] = inner;
  }
  if (result.axes == 0) result.add(1, 0, 0);
  return result;
}

template <class T>
void copy_points(const ExecSpace& space, const StridedGrid& grid, Compute<T> factor, const T* x, T* y) {
  const int outer = grid.axes - 1;
  const StridedGrid::Axis inner = grid.axis[outer];
  const std::int64_t width = thread_per_element ? 1 : inner.extent;  // points for each index
  Kokkos::parallel_for(
      "lockstep::strided::copy", RangePolicy(space, 0, points(grid, grid.axes) / width),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place place = place_of(grid, thread_per_element ? outer + 1 : outer, index);
        for (std::int64_t i = 0; i < width; ++i)
          y[place.y + i * inner.y_step] = T(factor * Compute<T>(x[place.x + i * inner.x_step]));
      });
}

/// Each index owns an element of y. Elements are summed in blocks, whose sums are added to the total.
template <class T>
void sum_points(const ExecSpace& space, const StridedGrid& kept, const StridedGrid& summed, Compute<T> factor,
                const T* x, T* y) {
  const int outer = summed.axes - 1;
  const StridedGrid::Axis inner = summed.axis[outer];
  const std::int64_t rows = points(summed, outer);
  Kokkos::parallel_for(
      "lockstep::strided::sum", RangePolicy(space, 0, points(kept, kept.axes)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const Place place = place_of(kept, kept.axes, index);
        Compute<T> total(0);
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* const from = x + place.x + place_of(summed, outer, row).x;
          for (std::int64_t begin = 0; begin < inner.extent; begin += block_rows) {
            const std::int64_t end = begin + block_rows < inner.extent ? begin + block_rows : inner.extent;
            Compute<T> sum(0);
            for (std::int64_t i = begin; i < end; ++i) sum += Compute<T>(from[i * inner.x_step]);
            total += sum;
          }
        }
        y[place.y] = T(factor * total);
      });
}

}  // namespace

void strided_copy(const ExecSpace& space, const StridedGrid& grid, const Tensor& x, const Tensor& y, double factor) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    copy_points<T>(space, merged(grid), static_cast<Compute<T>>(factor), x.as<const T>(), y.as<T>());
  });
}

void strided_sum(const ExecSpace& space, const StridedGrid& grid, double factor, const Tensor& x, const Tensor& y) {
  StridedGrid kept, summed;
  kept.x_first = grid.x_first;
  kept.y_first = grid.y_first;
  for (int k = 0; k < grid.axes; ++k) {
    const StridedGrid::Axis& axis = grid.axis[k];
    (axis.y_step == 0 ? summed : kept).add(axis.extent, axis.x_step, axis.y_step);
  }
  dispatch_float(y.dtype, [&]<class T>(T) {
    sum_points<T>(space, merged(kept), merged(summed), static_cast<Compute<T>>(factor), x.as<const T>(), y.as<T>());
  });
}

}  // namespace lockstep
