// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/tensor.hpp"

// How kernels that add up the rows of [rows, c] (c the last extent, rows all others) divide their work:
// rows in parts, one for each thread, whose sums are added in their order; columns in tiles.
namespace lockstep {

/// Columns that one index of a kernel works on: on CPUs a few vectors, whose sums stay in registers;
/// on GPUs one, so that neighbouring threads read neighbouring numbers.
inline constexpr int column_tile = thread_per_element ? 1 : 32;
/// Rows that are summed before the sum joins the total: keeps rounding errors small (two levels).
inline constexpr std::int64_t block_rows = 64;

struct Rows {
  std::int64_t rows, c;
};

inline Rows rows_of(const Tensor& y) {
  const std::int64_t c = y.shape[-1];
  return {c == 0 ? 0 : y.count() / c, c};
}

/// How many parts the rows are summed in.
inline std::int64_t parts_of(std::int64_t rows) {
  const std::int64_t wanted = thread_per_element ? 512 : planned_threads();
  if (wanted == 1) return 1;
  return std::clamp<std::int64_t>((rows + block_rows - 1) / block_rows, 1, wanted);
}

KOKKOS_INLINE_FUNCTION std::int64_t tiles_of(std::int64_t c) { return (c + column_tile - 1) / column_tile; }

/// Which rows and columns one index of a kernel over parts × tiles works on.
struct RowPiece {
  std::int64_t part, begin, end, first;
  int width;
};

KOKKOS_INLINE_FUNCTION RowPiece row_piece(std::int64_t index, std::int64_t rows, std::int64_t c, std::int64_t parts) {
  const std::int64_t tiles = tiles_of(c);
  const std::int64_t part = index / tiles, first = (index - part * tiles) * column_tile;
  return {part, rows * part / parts, rows * (part + 1) / parts, first,
          static_cast<int>(c - first < column_tile ? c - first : column_tile)};
}

/// A tile's width that the compiler knows: its loops become straight vector code. Converts to int like one
/// that it does not know. (std::integral_constant does so on hosts only.)
template <int width>
struct KnownWidth {
  KOKKOS_INLINE_FUNCTION constexpr operator int() const { return width; }
};
using FullTile = KnownWidth<column_tile>;
using HalfTile = KnownWidth<column_tile / 2>;

}  // namespace lockstep
