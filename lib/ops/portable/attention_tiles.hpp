// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>

#include "core/dtype.hpp"
#include "core/execution.hpp"
#include "core/packs.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

/// Attention on GPUs. A team of 256 threads has a tile of 64 queries (forward, dq) or keys (dk, dv) of one head, and
/// iterates over the tiles of 64 positions on the other side; scores exist for one pair of tiles at a time. Both kinds
/// of products, rows times rows (scores) and scores times rows (results), work like `GpuProduct`: 4×4 numbers for each
/// thread, from slices of the operands in shared memory. A thread keeps sums for `widths` · 64 columns of the head;
/// wider heads take several rounds, each of which recomputes the scores.
template <class T, int size_of_team, int widths>
struct TiledAttention {
  using C = Compute<T>;
  static constexpr int team_size = size_of_team;
  static constexpr int tile = 64, micro = 4, panels = tile / micro, threads = panels * panels;
  static constexpr int pieces = threads / team_size;      // pieces of a square for each thread
  static constexpr int depth = sizeof(C) == 8 ? 16 : 32;  // terms in a slice
  // Padded so that neighbouring panels begin in different banks.
  static constexpr int slice_panel = (depth + 1) * micro;
  static constexpr int columns_at_once = widths * tile;
  static constexpr std::size_t square_bytes = tile * tile * sizeof(C), slice_bytes = panels * slice_panel * sizeof(C);
  static constexpr std::size_t scratch_bytes = square_bytes + slice_bytes + 64;
  /// Level 0 is shared memory. Hosts use level 1, plain memory, as Kokkos' OpenMP has only 32 KiB per team at level 0.
  static constexpr int scratch_level = is_a_device ? 0 : 1;

  std::int64_t length, keys, heads, size, width, query_row, key_row;
  bool causal;
  C scale;

  explicit TiledAttention(const AttentionShape& s)
      : length(s.length),
        keys(s.keys()),
        heads(s.heads),
        size(s.head_size),
        width(s.width()),
        query_row(s.query_row()),
        key_row(s.key_row()),
        causal(s.causal),
        scale(static_cast<C>(1.0 / std::sqrt(static_cast<double>(s.head_size)))) {}

  KOKKOS_INLINE_FUNCTION static std::int64_t tiles(std::int64_t positions) { return (positions + tile - 1) / tile; }

  /// Numbers of consecutive positions in one range of columns; positions from `count` on are zeros.
  struct Lines {
    const T* data;
    std::int64_t row, count;
    KOKKOS_INLINE_FUNCTION C at(std::int64_t position, std::int64_t column) const {
      return position < count ? C(data[position * row + column]) : C(0);
    }
  };
  /// A head of a sequence, and the team's tile in it.
  struct Place {
    std::int64_t first;            // first position of the tile
    std::int64_t q, k, y, scalar;  // first elements of the sequence; scalar: in logsumexp
  };
  template <class Team>
  KOKKOS_INLINE_FUNCTION Place place(const Team& team, std::int64_t positions) const {
    const std::int64_t item = team.league_rank() / tiles(positions), sequence = item / heads,
                       column = item % heads * size;
    return {team.league_rank() % tiles(positions) * tile, sequence * length * query_row + column,
            sequence * keys * key_row + column, sequence * length * width + column, item * length};
  }
  KOKKOS_INLINE_FUNCTION static Lines lines(const T* data, std::int64_t row, std::int64_t first, std::int64_t end) {
    return {data + first * row, row, end - first};
  }

  /// Shared memory. `square` holds scores [panel of rows][column][micro]; while scores are computed, slices of one
  /// operand. `slice` holds slices [panel][depth][micro] of the other operand; also used to exchange numbers between
  /// rows' threads.
  struct Shared {
    C *square, *slice;
  };
  template <class Team>
  KOKKOS_INLINE_FUNCTION static Shared shared(const Team& team) {
    constexpr int level = scratch_level;  // Kokkos takes a reference, and devices have no static members
    C* const square = static_cast<C*>(team.team_scratch(level).get_shmem_aligned(square_bytes + slice_bytes, 64));
    return {square, square + tile * tile};
  }
  using Square = C[pieces][micro][micro];          ///< a thread's part of 64 × 64 numbers
  using Result = C[pieces][widths][micro][micro];  ///< a thread's part of 64 × columns_at_once numbers

  /// The position of the thread's piece number `mine` in a square, in units of pieces.
  template <class Team>
  KOKKOS_INLINE_FUNCTION static int row_panel(const Team& team, int mine) {
    return (team.team_rank() + mine * team_size) / panels;
  }
  template <class Team>
  KOKKOS_INLINE_FUNCTION static int column_panel(const Team& team, int mine) {
    return (team.team_rank() + mine * team_size) % panels;
  }

  KOKKOS_INLINE_FUNCTION static void multiply_piece(const C* a, const C* b, int terms, C (&sum)[micro][micro]) {
    for (int q = 0; q < terms; ++q) {
      const Pack<C, micro> left = load_pack<micro>(a + q * micro), right = load_pack<micro>(b + q * micro);
      for (int r = 0; r < micro; ++r)
        for (int s = 0; s < micro; ++s) sum[r][s] += left.lane[r] * right.lane[s];
    }
  }

  /// square = a · bᵀ: the products of 64 rows with 64 rows.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void multiply_rows(const Team& team, const Shared& s, const Lines& a, const Lines& b,
                                            Square& square) const {
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r)
        for (int c = 0; c < micro; ++c) square[mine][r][c] = C(0);
    for (std::int64_t first = 0; first < size; first += depth) {
      const int terms = static_cast<int>(size - first < depth ? size - first : depth);
      team.team_barrier();  // until no thread reads the previous contents
      for (int index = team.team_rank(); index < panels * terms; index += team_size) {
        const int panel = index / terms, p = index % terms;  // neighbouring threads read neighbouring columns
        Pack<C, micro> left, right;
        for (int r = 0; r < micro; ++r) {
          left.lane[r] = a.at(panel * micro + r, first + p);
          right.lane[r] = b.at(panel * micro + r, first + p);
        }
        store_pack<micro>(left, s.square + panel * slice_panel + p * micro);
        store_pack<micro>(right, s.slice + panel * slice_panel + p * micro);
      }
      team.team_barrier();
      for (int mine = 0; mine < pieces; ++mine)
        multiply_piece(s.square + row_panel(team, mine) * slice_panel, s.slice + column_panel(team, mine) * slice_panel,
                       terms, square[mine]);
    }
  }

  /// result += square · the 64 rows of b, from column `first` on.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void add_product(const Team& team, const Shared& s, const Square& square, const Lines& b,
                                          std::int64_t first, Result& result) const {
    team.team_barrier();  // until no thread reads the previous contents
    for (int mine = 0; mine < pieces; ++mine)
      for (int c = 0; c < micro; ++c) {
        Pack<C, micro> column;
        for (int r = 0; r < micro; ++r) column.lane[r] = square[mine][r][c];
        store_pack<micro>(column,
                          s.square + (row_panel(team, mine) * tile + column_panel(team, mine) * micro + c) * micro);
      }
    for (int k = 0; k < tile; k += depth) {
      LOCKSTEP_UNROLL
      for (int w = 0; w < widths; ++w) {
        if (k > 0 || w > 0) team.team_barrier();
        for (int index = team.team_rank(); index < panels * depth; index += team_size) {
          const int p = index / panels, panel = index % panels;
          const std::int64_t column = first + w * tile + panel * micro;
          Pack<C, micro> line;
          for (int j = 0; j < micro; ++j) line.lane[j] = column + j < size ? b.at(k + p, column + j) : C(0);
          store_pack<micro>(line, s.slice + panel * slice_panel + p * micro);
        }
        team.team_barrier();
        for (int mine = 0; mine < pieces; ++mine)
          multiply_piece(s.square + (row_panel(team, mine) * tile + k) * micro,
                         s.slice + column_panel(team, mine) * slice_panel, depth, result[mine][w]);
      }
    }
  }

  /// Reduces, for each row, the values of all its threads with `combine`; all of them receive the result.
  template <class Team, class Combine>
  KOKKOS_INLINE_FUNCTION static void combine_rows(const Team& team, const Shared& s, const Combine& combine,
                                                  C (&of_rows)[pieces][micro]) {
    team.team_barrier();
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r)
        s.slice[(row_panel(team, mine) * micro + r) * panels + column_panel(team, mine)] = of_rows[mine][r];
    team.team_barrier();
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r) {
        const C* const parts = s.slice + (row_panel(team, mine) * micro + r) * panels;
        C all = parts[0];
        for (int i = 1; i < panels; ++i) all = combine(all, parts[i]);
        of_rows[mine][r] = all;
      }
  }

  KOKKOS_INLINE_FUNCTION static void clear(Result& result) {
    for (int mine = 0; mine < pieces; ++mine)
      for (int w = 0; w < widths; ++w)
        for (int r = 0; r < micro; ++r)
          for (int c = 0; c < micro; ++c) result[mine][w][r][c] = C(0);
  }
  /// Calls write(piece, row in the piece, position in the tile, column, value) for all valid elements of the result.
  template <class Team, class Write>
  KOKKOS_INLINE_FUNCTION void for_result(const Team& team, const Result& result, std::int64_t rows, std::int64_t first,
                                         const Write& write) const {
    for (int mine = 0; mine < pieces; ++mine) {
      LOCKSTEP_UNROLL
      for (int place = 0; place < widths * micro * micro; ++place) {
        const int w = place / (micro * micro), r = place / micro % micro, c = place % micro;
        const std::int64_t row = row_panel(team, mine) * micro + r,
                           column = first + w * tile + column_panel(team, mine) * micro + c;
        if (row < rows && column < size) write(mine, r, row, column, result[mine][w][r][c]);
      }
    }
  }
  /// Calls f(piece, row, column, row in the square, column in the square) for all elements of the thread's part of a
  /// square.
  template <class Team, class F>
  KOKKOS_INLINE_FUNCTION static void for_square(const Team& team, const F& f) {
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r)
        for (int c = 0; c < micro; ++c)
          f(mine, r, c, row_panel(team, mine) * micro + r, column_panel(team, mine) * micro + c);
  }
  /// True if the key exists and the query attends to it.
  KOKKOS_INLINE_FUNCTION bool sees(std::int64_t query, std::int64_t key) const {
    return key < keys && !(causal && key > query);
  }
  /// The end of the keys that the queries of a tile attend to.
  KOKKOS_INLINE_FUNCTION std::int64_t keys_of(std::int64_t first_query) const {
    return causal && first_query + tile < keys ? first_query + tile : keys;
  }
};

}  // namespace lockstep
