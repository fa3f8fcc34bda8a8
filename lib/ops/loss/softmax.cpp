// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include "ops/fast_math.hpp"
#include "ops/loss/online_softmax.hpp"
#include "ops/row_parts.hpp"
#include "ops/row_sums.hpp"

namespace lockstep {
namespace {

/// The largest number of a row and Σ exp(x − largest).
template <class C>
struct SoftmaxSum {
  C largest, sum;
  KOKKOS_INLINE_FUNCTION C power(C x) const { return fast_exp(x - largest); }
};

/// Takes one pass on GPUs and two on CPUs, where two loops vectorize better.
template <class T>
KOKKOS_INLINE_FUNCTION SoftmaxSum<Compute<T>> softmax_sum(const RowMember& team, std::int64_t c, const T* x) {
  using C = Compute<T>;
  if constexpr (thread_per_element) {
    const OnlineSoftmax<C> seen = online_softmax_of_row(team, c, x);
    return {seen.largest, seen.sum};
  } else {
    const C largest = largest_of_row(team, c, x);
    return {
        largest,
        sum_of_row<C>(team, c, [&](std::int64_t, const T& value) { return fast_exp(C(value) - largest); }, Reads(x))};
  }
}

template <class T>
void forward(const ExecSpace& space, const T* x, T* y, std::int64_t rows, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax::forward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          const T* const in = x + row * c;
          T* const out = y + row * c;
          const SoftmaxSum<C> of_row = softmax_sum(team, c, in);
          // Exponentials are recomputed, not read back from y, which may have 16 bits.
          for_row(
              team, c,
              [&](std::int64_t, const T& value, T& result) { result = T(of_row.power(C(value)) / of_row.sum); },
              Reads(in), Writes(out));
        });
      });
}

template <class T>
void forward_of_kept_rows(const ExecSpace& space, const T* x, T* y, std::int64_t rows, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax::forward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          KeptRow<T> kept(team, c, x + row * c, -Kokkos::Experimental::infinity_v<C>);
          const C largest = kept.largest(team);
          const C sum = kept.sum(team, [&](const int j) { return kept.value[j] = fast_exp(kept.value[j] - largest); });
          kept.store(team, c, y + row * c, [&](const int j) { return kept.value[j] / sum; });
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

template <class T>
void backward_of_kept_rows(const ExecSpace& space, const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t c) {
  using C = Compute<T>;
  Kokkos::parallel_for(
      "lockstep::softmax::backward", row_team(space, rows), KOKKOS_LAMBDA(const RowMember& team) {
        for_rows(team, rows, [&](const std::int64_t row) {
          const KeptRow<T> result(team, c, y + row * c, C(0)), gradient(team, c, dy + row * c, C(0));
          const C sum = result.sum(team, [&](const int j) { return result.value[j] * gradient.value[j]; });
          result.store(team, c, dx + row * c, [&](const int j) { return result.value[j] * (gradient.value[j] - sum); });
        });
      });
}

}  // namespace

void softmax_forward(const ExecSpace& space, const Tensor& x, const Tensor& y) {
  const Rows size = rows_of(x);
  dispatch_float(x.dtype, [&]<class T>(T) {
    const T* const from = x.as<const T>();
    T* const to = y.as<T>();
    if constexpr (thread_per_element)
      if (KeptRow<T>::can_keep(size.c, from, to)) return forward_of_kept_rows<T>(space, from, to, size.rows, size.c);
    forward<T>(space, from, to, size.rows, size.c);
  });
}

void softmax_backward(const ExecSpace& space, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const Rows size = rows_of(y);
  dispatch_float(y.dtype, [&]<class T>(T) {
    const T *const result = y.as<const T>(), *const gradient = dy.as<const T>();
    T* const to = dx.as<T>();
    if constexpr (thread_per_element)
      if (KeptRow<T>::can_keep(size.c, result, gradient, to))
        return backward_of_kept_rows<T>(space, result, gradient, to, size.rows, size.c);
    backward<T>(space, result, gradient, to, size.rows, size.c);
  });
}

}  // namespace lockstep
