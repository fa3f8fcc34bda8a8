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
          const C largest = largest_of_row(team, c, in);
          const auto power = [&](std::int64_t, const T& value) { return fast_exp(C(value) - largest); };
          const C sum = sum_of_row<C>(team, c, power, Reads(in));
          // Computed again rather than read back: y may be of 16 bits.
          for_row(
              team, c, [&](std::int64_t j, const T& value, T& result) { result = T(power(j, value) / sum); }, Reads(in),
              Writes(out));
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
          const C sum = sum_of_row<C>(
              team, c, [](std::int64_t, const T& slope, const T& value) { return C(slope) * C(value); },
              Reads(gradient), Reads(result));
          for_row(
              team, c,
              [&](std::int64_t, const T& slope, const T& value, T& to) { to = T(C(value) * (C(slope) - sum)); },
              Reads(gradient), Reads(result), Writes(out));
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
