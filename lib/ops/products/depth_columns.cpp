// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/im2col.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

// Each index is one element of the columns, or of dx, so that neighbouring threads write neighbouring elements.

template <class T>
void forward(const ExecSpace& space, const DepthColumnsShape& s, const T* x, T* columns) {
  const std::int64_t out_depth = s.out_depth(), slice = s.slice * s.c;
  Kokkos::parallel_for(
      "lockstep::depth_columns::forward", RangePolicy(space, 0, s.count()), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t at = row_of(index, s.kernel), k = index - at * s.kernel;  // at: in [n·out_depth, slice, c]
        const std::int64_t out = row_of(at, slice), example = row_of(out, out_depth);
        const std::int64_t z = (out - example * out_depth) * s.stride - s.pad_front + k;
        columns[index] = z >= 0 && z < s.depth ? x[(example * s.depth + z) * slice + (at - out * slice)] : T(0);
      });
}

template <class T>
void backward(const ExecSpace& space, const DepthColumnsShape& s, const T* dcolumns, T* dx) {
  const std::int64_t out_depth = s.out_depth(), slice = s.slice * s.c;
  Kokkos::parallel_for(
      "lockstep::depth_columns::backward", RangePolicy(space, 0, s.n * s.depth * slice),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t in = row_of(index, slice), example = row_of(in, s.depth);
        const std::int64_t z = in - example * s.depth + s.pad_front;
        Compute<T> sum = 0;
        for (std::int64_t k = 0; k < s.kernel && k <= z; ++k) {
          const std::int64_t out = row_of(z - k, s.stride);
          if (out * s.stride != z - k || out >= out_depth) continue;
          sum += Compute<T>(dcolumns[((example * out_depth + out) * slice + (index - in * slice)) * s.kernel + k]);
        }
        dx[index] = T(sum);
      });
}

}  // namespace

void depth_columns_forward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& x,
                           const Tensor& columns) {
  dispatch_float(x.dtype, [&]<class T>(T) { forward<T>(space, shape, x.as<const T>(), columns.as<T>()); });
}

void depth_columns_backward(const ExecSpace& space, const DepthColumnsShape& shape, const Tensor& dcolumns,
                            const Tensor& dx) {
  dispatch_float(dx.dtype, [&]<class T>(T) { backward<T>(space, shape, dcolumns.as<const T>(), dx.as<T>()); });
}

}  // namespace lockstep
