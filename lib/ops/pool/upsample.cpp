// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/pool/pooling.hpp"

namespace lockstep {
namespace {

template <class T>
void forward(const ExecSpace& space, std::int64_t factor, const Shape& in, const T* x, T* y) {
  const std::int64_t rows = in[0] * in[1] * factor, width = in[2], c = in[3];
  Kokkos::parallel_for(
      "lockstep::upsample::forward", RangePolicy(space, 0, rows * width), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t row = index / width, column = index % width;  // row of y, column of x
        const T* const from = x + (row / factor * width + column) * c;
        T* const to = y + index * factor * c;
        for (std::int64_t copy = 0; copy < factor; ++copy)
          for (std::int64_t k = 0; k < c; ++k) to[copy * c + k] = from[k];
      });
}

template <class T>
void backward(const ExecSpace& space, std::int64_t factor, const Shape& in, const T* dy, T* dx) {
  const std::int64_t width = in[2], c = in[3];
  Kokkos::parallel_for(
      "lockstep::upsample::backward", RangePolicy(space, 0, in.count()), KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t pixel = index / c, k = index % c, row = pixel / width, column = pixel % width;
        const T* const from = dy + (row * factor * width + column) * factor * c + k;
        Compute<T> sum = 0;
        for (std::int64_t i = 0; i < factor; ++i)
          for (std::int64_t j = 0; j < factor; ++j) sum += Compute<T>(from[(i * width * factor + j) * c]);
        dx[index] = T(sum);
      });
}

}  // namespace

void upsample_forward(const ExecSpace& space, std::int64_t factor, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype, [&]<class T>(T) { forward<T>(space, factor, x.shape, x.as<const T>(), y.as<T>()); });
}

void upsample_backward(const ExecSpace& space, std::int64_t factor, const Tensor& dy, const Tensor& dx) {
  dispatch_float(dx.dtype, [&]<class T>(T) { backward<T>(space, factor, dx.shape, dy.as<const T>(), dx.as<T>()); });
}

}  // namespace lockstep
