// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/pool/pooling.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

template <class T>
void forward(const ExecSpace& space, const T* x, T* y, std::int64_t n, std::int64_t pixels, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::global_avg_pool::forward", RangePolicy(space, 0, n * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = row_piece(index, n * pixels, c, n);  // each image is a part
        C total[column_tile] = {};
        for (std::int64_t begin = p.begin; begin < p.end; begin += block_rows) {
          const std::int64_t end = begin + block_rows < p.end ? begin + block_rows : p.end;
          C sum[column_tile] = {};
          for (std::int64_t row = begin; row < end; ++row)
            for (int j = 0; j < p.width; ++j) sum[j] += C(x[row * c + p.first + j]);
          for (int j = 0; j < p.width; ++j) total[j] += sum[j];
        }
        for (int j = 0; j < p.width; ++j) y[p.part * c + p.first + j] = T(total[j] / static_cast<C>(pixels));
      });
}

template <class T>
void backward(const ExecSpace& space, const T* dy, T* dx, std::int64_t n, std::int64_t pixels, std::int64_t c) {
  using C = Compute<T>;
  const C share = C(1) / static_cast<C>(pixels);
  Kokkos::parallel_for(
      "lockstep::global_avg_pool::backward", RangePolicy(space, 0, n * pixels * tiles_of(c)),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const RowPiece p = thread_per_element ? element_piece(index, c) : row_piece(index, n * pixels, c, n * pixels);
        const T* const gradient = dy + row_of(p.part, pixels) * c + p.first;
        for (int j = 0; j < p.width; ++j) dx[p.part * c + p.first + j] = T(C(gradient[j]) * share);
      });
}

}  // namespace

void global_average_forward(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) {
    forward<T>(space, x.as<const T>(), y.as<T>(), x.shape[0], x.count() / y.count(), x.shape[-1]);
  });
}

void global_average_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dx) {
  dispatch_float(dx.dtype, [&]<class T>(T) {
    backward<T>(space, dy.as<const T>(), dx.as<T>(), dx.shape[0], dx.count() / dy.count(), dx.shape[-1]);
  });
}

}  // namespace lockstep
