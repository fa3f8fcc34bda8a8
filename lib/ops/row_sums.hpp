// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/float16.hpp"
#include "core/packs.hpp"

// Sums along each row of [rows, c], for kernels with a team for a few rows and vectors along them.
namespace lockstep {

using RowTeam = Kokkos::TeamPolicy<ExecSpace>;
using RowMember = RowTeam::member_type;
inline constexpr int rows_per_team = 4;

inline RowTeam row_team(const ExecSpace& space, std::int64_t rows) {
  const auto teams = static_cast<int>((rows + rows_per_team - 1) / rows_per_team);
  return thread_per_element ? RowTeam(space, teams, team_threads(rows_per_team), 32) : RowTeam(space, teams, 1, 1);
}

/// Calls f(row) for the team's rows.
template <class F>
KOKKOS_INLINE_FUNCTION void for_rows(const RowMember& team, std::int64_t rows, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, rows_per_team), [&](const int i) {
    const std::int64_t row = static_cast<std::int64_t>(team.league_rank()) * rows_per_team + i;
    if (row < rows) f(row);
  });
}

/// Σ f(j), j < c. On CPUs in as many sums as a few vectors hold, so that there are vectors.
template <class C, class F>
KOKKOS_INLINE_FUNCTION C row_sum(const RowMember& team, std::int64_t c, const F& f) {
  C total = C(0);
  if constexpr (thread_per_element) {
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, c), [&](const std::int64_t j, C& sum) { sum += f(j); }, total);
  } else {
    constexpr int lanes = 32;
    C sum[lanes] = {};
    std::int64_t first = 0;
    for (; first + lanes <= c; first += lanes)
      for (int lane = 0; lane < lanes; ++lane) sum[lane] += f(first + lane);
    for (; first < c; ++first) total += f(first);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
    total += sum[0];
  }
  return total;
}

/// Calls f(j) for j < c.
template <class F>
KOKKOS_INLINE_FUNCTION void for_columns(const RowMember& team, std::int64_t c, const F& f) {
  Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, c), [&](const std::int64_t j) { f(j); });
}

/// Calls f(j, element j of each array) for the elements j < c of a row, where the arrays begin with it.
template <class F, class... Arrays>
KOKKOS_INLINE_FUNCTION void for_row(const RowMember& team, std::int64_t c, const F& f, const Arrays&... arrays) {
  const RowElements<Arrays...> row(c, arrays...);
  for_columns(team, row.indices, [&](const std::int64_t index) { row.do_index(f, index); });
}

/// Adds what f says of an element.
template <class C, class F>
struct AddOf {
  const F& f;
  C& sum;
  template <class... Elements>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t j, const Elements&... elements) const {
    sum += f(j, elements...);
  }
};

/// Σ f(j, element j of each array).
template <class C, class F, class... Arrays>
KOKKOS_INLINE_FUNCTION C sum_of_row(const RowMember& team, std::int64_t c, const F& f, const Arrays&... arrays) {
  const RowElements<Arrays...> row(c, arrays...);
  if constexpr (thread_per_element) {
    C total = C(0);
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, row.indices),
        [&](const std::int64_t index, C& sum) { row.do_index(AddOf<C, F>{f, sum}, index); }, total);
    return total;
  } else {
    return row_sum<C>(team, c, [&](const std::int64_t j) { return row.arrays.do_element(f, j); });
  }
}

/// The largest number of a row.
template <class T>
KOKKOS_INLINE_FUNCTION Compute<T> largest_of_row(const RowMember& team, std::int64_t c, const T* x) {
  using C = Compute<T>;
  const RowElements<Reads<T>> row(c, Reads<T>(x));
  C largest = C(x[0]);
  Kokkos::parallel_reduce(
      Kokkos::ThreadVectorRange(team, row.indices),
      [&](const std::int64_t index, C& best) {
        row.do_index([&](std::int64_t, const T& value) { best = C(value) > best ? C(value) : best; }, index);
      },
      Kokkos::Max<C>(largest));
  return largest;
}

}  // namespace lockstep
