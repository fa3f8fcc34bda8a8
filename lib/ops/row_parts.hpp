// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/tensor.hpp"
#include "ops/row_sums.hpp"

// How kernels that add up the rows of [rows, c] (c is the last extent, rows are all others) divide their work. Rows are
// divided into parts, one for each thread, whose sums a second kernel adds; columns are divided into tiles.
namespace lockstep {

/// Columns that one index of a kernel processes: on CPUs a few vectors, whose sums stay in registers; on GPUs one, so
/// that neighbouring threads read neighbouring elements.
inline constexpr int column_tile = thread_per_element ? 1 : 32;
/// Rows that are summed before their sum is added to the total; two levels keep rounding errors small.
inline constexpr std::int64_t block_rows = 64;

struct Rows {
  std::int64_t rows, c;
};

inline Rows rows_of(const Tensor& y) {
  const std::int64_t c = y.shape[-1];
  return {c == 0 ? 0 : y.count() / c, c};
}

/// The number of parts that rows are divided into; on GPUs enough for each multiprocessor to have several teams
/// (column_sums.hpp).
inline std::int64_t parts_of(std::int64_t rows, std::int64_t c) {
  constexpr std::int64_t teams = 512, least = 64;
  if constexpr (thread_per_element)
    return std::clamp<std::int64_t>(rows / 16, 1, std::max(least, teams / (c / 2048 + 1)));
  const std::int64_t wanted = planned_threads();
  if (wanted == 1) return 1;
  return std::clamp<std::int64_t>((rows + block_rows - 1) / block_rows, 1, wanted);
}

KOKKOS_INLINE_FUNCTION std::int64_t tiles_of(std::int64_t c) { return (c + column_tile - 1) / column_tile; }

/// True if all rows of the arrays [rows, c] consist of packs.
template <int lanes, class... T>
bool rows_hold_packs(std::int64_t c, const T*... arrays) {
  return c % lanes == 0 && (holds_packs<T, lanes>(arrays) && ...);
}

/// Calls f with an integral_constant, the number of neighbouring columns that a thread processes: a pack of T on GPUs
/// if all rows of the arrays [rows, c] consist of packs, else 1.
template <class T, class F, class... Arrays>
void with_packs(std::int64_t c, const F& f, const Arrays*... arrays) {
  constexpr int lanes = 16 / sizeof(T);
  if (thread_per_element && rows_hold_packs<lanes>(c, arrays...)) f(std::integral_constant<int, lanes>());
  else f(std::integral_constant<int, 1>());
}

/// The rows and columns that one index of a kernel over parts × tiles processes.
struct RowPiece {
  std::int64_t part, begin, end, first;
  int width;
};

KOKKOS_INLINE_FUNCTION RowPiece row_piece(std::int64_t index, std::int64_t rows, std::int64_t c, std::int64_t parts) {
  const std::int64_t tiles = tiles_of(c);
  const std::int64_t part = index / tiles, first = (index - part * tiles) * column_tile;
  // For single columns the width is a compile-time constant, so sums stay in registers.
  const int width = column_tile == 1 || c - first >= column_tile ? column_tile : static_cast<int>(c - first);
  return {part, rows * part / parts, rows * (part + 1) / parts, first, width};
}

/// A piece that consists of element i only.
KOKKOS_INLINE_FUNCTION RowPiece element_piece(std::int64_t i, std::int64_t c) {
  const std::int64_t row = row_of(i, c);
  return {row, row, row + 1, i - row * c, 1};
}

/// Adds up the parts of a column: on CPUs by one thread in order, on GPUs by a team in an order that depends only on
/// their number.
struct PartSums {
  const RowMember* team;  ///< null on CPUs

  /// Returns before + Σ of(part).
  template <class C, class F>
  KOKKOS_INLINE_FUNCTION C sum(std::int64_t parts, C before, const F& of) const {
    if constexpr (thread_per_element) {
      C total = C(0);
      Kokkos::parallel_reduce(
          Kokkos::TeamVectorRange(*team, parts), [&](const std::int64_t part, C& sum) { sum += of(part); }, total);
      return before + total;
    } else {
      C total = before;
      for (std::int64_t part = 0; part < parts; ++part) total += of(part);
      return total;
    }
  }
  /// Calls f in one thread. Must come after the sums.
  template <class F>
  KOKKOS_INLINE_FUNCTION void once(const F& f) const {
    if constexpr (thread_per_element) Kokkos::single(Kokkos::PerTeam(*team), f);
    else f();
  }
};

/// Calls f(PartSums, j) for the columns j < c.
template <class F>
void for_sums_of_parts(const ExecSpace& space, const char* label, std::int64_t c, const F& f) {
  if constexpr (thread_per_element) {
    Kokkos::parallel_for(
        label, RowTeam(space, static_cast<int>(c), team_threads(4), 32),
        KOKKOS_LAMBDA(const RowMember& team) { f(PartSums{&team}, team.league_rank()); });
  } else {
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, c), KOKKOS_LAMBDA(const std::int64_t j) { f(PartSums{nullptr}, j); });
  }
}

/// A tile's width as a compile-time constant, so that loops over it become straight vector code. Converts to int like a
/// width known at run time; std::integral_constant does so on hosts only.
template <int width>
struct KnownWidth {
  KOKKOS_INLINE_FUNCTION constexpr operator int() const { return width; }
};
using FullTile = KnownWidth<column_tile>;
using HalfTile = KnownWidth<column_tile / 2>;

}  // namespace lockstep
