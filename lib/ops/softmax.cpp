// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/softmax.hpp"

#include "ops/fast_math.hpp"
#include "ops/row_parts.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

template <class T>
void forward(const ExecSpace& space, const T* x, T* y, std::int64_t rows, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax::forward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          const T* const in = x + row * c;
          T* const out = y + row * c;
          C largest = in[0];
          Kokkos::parallel_reduce(
              Kokkos::ThreadVectorRange(team, c),
              [&](const std::int64_t j, C& best) { best = C(in[j]) > best ? C(in[j]) : best; },
              Kokkos::Max<C>(largest));
          const C sum = row_sum<C>(team, c, [&](const std::int64_t j) { return fast_exp(C(in[j]) - largest); });
          // Computed again rather than read back: y may be of 16 bits.
          for_columns(team, c, [&](const std::int64_t j) { out[j] = T(fast_exp(C(in[j]) - largest) / sum); });
        });
      });
}

template <class T>
void backward(const ExecSpace& space, const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax::backward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          const T *const result = y + row * c, *const gradient = dy + row * c;
          T* const out = dx + row * c;
          const C sum = row_sum<C>(team, c, [&](const std::int64_t j) { return C(gradient[j]) * C(result[j]); });
          for_columns(team, c, [&](const std::int64_t j) { out[j] = T(C(result[j]) * (C(gradient[j]) - sum)); });
        });
      });
}

}  // namespace

void softmax_forward(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) { forward<T>(space, x.as<const T>(), y.as<T>(), size.rows, size.c); });
}

void softmax_backward(const ExecSpace& space, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const Rows size = rows_of(y);
  dispatch_float(y.dtype, [&]<class T>(T) {
    backward<T>(space, y.as<const T>(), dy.as<const T>(), dx.as<T>(), size.rows, size.c);
  });
}

}  // namespace lockstep
