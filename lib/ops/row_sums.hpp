// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/dtype.hpp"
#include "core/packs.hpp"

// Sums along each row of [rows, c], for kernels with a team for a few rows and vector lanes along each row.
namespace lockstep {

using RowTeam = Kokkos::TeamPolicy<ExecSpace>;
using RowMember = RowTeam::member_type;
inline constexpr int rows_per_team = 4;

inline RowTeam row_team(const ExecSpace& space, std::int64_t rows) {
  const auto teams = static_cast<int>((rows + rows_per_team - 1) / rows_per_team);
  return thread_per_element ? RowTeam(space, teams, team_threads(rows_per_team), 32) : RowTeam(space, teams, 1, 1);
}

/// Calls f(row) for each of the team's rows.
template <class F>
KOKKOS_INLINE_FUNCTION void for_rows(const RowMember& team, std::int64_t rows, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, rows_per_team), [&](const int i) {
    const std::int64_t row = static_cast<std::int64_t>(team.league_rank()) * rows_per_team + i;
    if (row < rows) f(row);
  });
}

/// Number of vector lanes that process a row together. Between loops over lanes, each lane runs the code with variables
/// of its own, which loops over exactly as many indices as lanes may read and change.
inline constexpr int row_lanes = is_a_device ? 32 : 1;

/// Replaces each lane's number, which the reducer refers to, by the reduction over all lanes.
template <class Reducer>
KOKKOS_INLINE_FUNCTION void reduce_lanes(const RowMember& team, const Reducer& reducer) {
  using Value = typename Reducer::value_type;
  const Value own = reducer.reference();
  Kokkos::parallel_reduce(
      Kokkos::ThreadVectorRange(team, row_lanes), [&](const int, Value& all) { reducer.join(all, own); }, reducer);
}

/// Σ f(j), j < c. On CPUs it has as many partial sums as a few vectors hold, so that the loop vectorizes.
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

/// Calls f(j, element j of each array) for j < c; the arrays begin with the row.
template <class F, class... Arrays>
KOKKOS_INLINE_FUNCTION void for_row(const RowMember& team, std::int64_t c, const F& f, const Arrays&... arrays) {
  const RowElements<Arrays...> row(c, arrays...);
  for_columns(team, row.indices, [&](const std::int64_t index) { row.do_index(f, index); });
}

/// Adds the value of f for an element.
template <class C, class F>
struct AddOf {
  const F& f;
  C& sum;
  template <class... Elements>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t j, const Elements&... elements) const {
    sum += f(j, elements...);
  }
};

/// Σ f(j, element j of each array), j < c.
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

/// A row of at most `longest` elements, all in packs, which the lanes read once and keep in registers: each lane holds
/// some packs of it, 128 bytes in the type of the arithmetic. Twice as many fp64 numbers would not fit.
template <class T>
struct KeptRow {
  using C = Compute<T>;
  static constexpr int longest = 4096 / sizeof(C), lanes = 16 / sizeof(T), packs = longest / (lanes * row_lanes);
  C value[packs * lanes];

  /// True if the rows of arrays [rows, c] can be kept.
  template <class... Arrays>
  static bool can_keep(std::int64_t c, const Arrays*... arrays) {
    return c <= longest && c % lanes == 0 && (holds_packs<T, lanes>(arrays) && ...);
  }
  /// Reads a row; values beyond its end are `missing`.
  KOKKOS_INLINE_FUNCTION KeptRow(const RowMember& team, std::int64_t c, const T* row, C missing) {
    Pack<T, lanes> pack[packs];
    for_packs(team, c, [&](const int k, const std::int64_t at) { pack[k] = load_pack<lanes>(row + at); });
    LOCKSTEP_UNROLL
    for (int j = 0; j < packs * lanes; ++j) value[j] = missing;
    for_packs(team, c, [&](const int k, std::int64_t) {
      LOCKSTEP_UNROLL
      for (int l = 0; l < lanes; ++l) value[k * lanes + l] = C(pack[k].lane[l]);
    });
  }
  /// Calls f(number of the pack within this lane, its first element in the row).
  template <class F>
  static KOKKOS_INLINE_FUNCTION void for_packs(const RowMember& team, std::int64_t c, const F& f) {
    for_columns(team, row_lanes, [&](const std::int64_t lane) {
      LOCKSTEP_UNROLL
      for (int k = 0; k < packs; ++k) {
        const std::int64_t at = (lane + k * row_lanes) * lanes;
        if (at < c) f(k, at);
      }
    });
  }
  /// Stores f(j) where value[j] was read, in `row`.
  template <class F>
  static KOKKOS_INLINE_FUNCTION void store(const RowMember& team, std::int64_t c, T* row, const F& f) {
    for_packs(team, c, [&](const int k, const std::int64_t at) {
      Pack<T, lanes> pack;
      LOCKSTEP_UNROLL
      for (int l = 0; l < lanes; ++l) pack.lane[l] = T(f(k * lanes + l));
      store_pack<lanes>(pack, row + at);
    });
  }
  /// Σ f(j) over the values of all lanes.
  template <class F>
  static KOKKOS_INLINE_FUNCTION C sum(const RowMember& team, const F& f) {
    C total = 0;
    LOCKSTEP_UNROLL
    for (int j = 0; j < packs * lanes; ++j) total += f(j);
    reduce_lanes(team, Kokkos::Sum<C>(total));
    return total;
  }
  KOKKOS_INLINE_FUNCTION C largest(const RowMember& team) const {
    C best = value[0];
    LOCKSTEP_UNROLL
    for (int j = 1; j < packs * lanes; ++j) best = value[j] > best ? value[j] : best;
    reduce_lanes(team, Kokkos::Max<C>(best));
    return best;
  }
};

}  // namespace lockstep
