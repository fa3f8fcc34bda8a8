// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <utility>

#include "core/execution.hpp"
#include "ops/portable/micro_product.hpp"

namespace lockstep {

/// The product on CPUs, blocked as in Goto & van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
/// A thread copies one block of A after the other to its level-2 cache, and multiplies each with the panels of a slice
/// of B that is as wide as the thread's tile of C. The panels are copied when the first block needs them. A panel stays
/// in the level-1 cache while it is multiplied, and the slice in the level-3 cache.
template <class T>
struct CpuGemm {
  static constexpr int size = static_cast<int>(sizeof(T));
  static constexpr int depth = 24 * 1024 / (Micro<T>::n * size);  // terms that are processed at a time
  static constexpr int block_m = 144 * 1024 / (depth * size) / Micro<T>::m * Micro<T>::m;
  static constexpr std::int64_t widest = 1024;  // most columns of a tile

  static std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

  /// Rows and columns of a thread's tiles of C: large, so that little is copied twice, but numerous enough to keep all
  /// threads busy.
  static std::pair<std::int64_t, std::int64_t> tile_of(int threads, std::int64_t m, std::int64_t n) {
    std::int64_t rows = round_up(m, Micro<T>::m), columns = std::min(widest, round_up(n, Micro<T>::n));
    const std::int64_t wanted = threads == 1 ? 1 : 3 * threads;
    const auto tiles = [&] { return (m + rows - 1) / rows * ((n + columns - 1) / columns); };
    while (tiles() < wanted && (rows > Micro<T>::m || columns > Micro<T>::n)) {
      if (rows > columns || columns == Micro<T>::n) rows = round_up(rows / 2, Micro<T>::m);
      else columns = round_up(columns / 2, Micro<T>::n);
    }
    return {rows, columns};
  }

  static std::size_t scratch_bytes(std::int64_t tile_columns) {
    return static_cast<std::size_t>((block_m + tile_columns) * depth * size);
  }

  /// Copies `count` lines to panels [panel][k][width]. If a line's neighbouring elements are far apart, it transposes
  /// squares, so that every cache line is read once.
  template <int width>
  static void pack(const T* from, std::int64_t along, std::int64_t stride_k, std::int64_t count, int k, T* packed) {
    constexpr int square = 16;
    for (std::int64_t first = 0; first < count; first += width, packed += width * k) {
      const T* lines = from + first * along;
      if (along == 1 || stride_k != 1 || count - first < width) {
        for (int p = 0; p < k; ++p) pack_line<width>(lines + p * stride_k, along, count - first, packed + p * width);
        continue;
      }
      int p = 0;
      for (; p + square <= k; p += square)
        for (int j = 0; j < width; ++j)
          for (int q = 0; q < square; ++q) packed[(p + q) * width + j] = lines[j * along + p + q];
      for (; p < k; ++p) pack_line<width>(lines + p, along, width, packed + p * width);
    }
  }

  static void tile(const Strided<T>& a, const Strided<T>& b, T* c, std::int64_t c_stride, std::int64_t rows,
                   std::int64_t columns, std::int64_t k, bool add, T* scratch) {
    constexpr int m = Micro<T>::m, n = Micro<T>::n;
    T* block_a = scratch;
    T* slice_b = scratch + block_m * depth;
    for (std::int64_t p = 0; p < k; p += depth) {
      const int terms = static_cast<int>(std::min<std::int64_t>(depth, k - p));
      for (std::int64_t first = 0; first < rows; first += block_m) {
        const std::int64_t count = std::min<std::int64_t>(block_m, rows - first);
        pack<m>(a.data + first * a.row + p * a.column, a.row, a.column, count, terms, block_a);
        for (std::int64_t j = 0; j < columns; j += n) {
          T* panel_b = slice_b + j * terms;
          if (first == 0)
            pack<n>(b.data + p * b.row + j * b.column, b.column, b.row, std::min<std::int64_t>(n, columns - j), terms,
                    panel_b);
          for (std::int64_t i = 0; i < count; i += m)
            micro_product<T>(terms, block_a + i * terms, panel_b, c + (first + i) * c_stride + j, c_stride, count - i,
                             columns - j, add || p > 0);
        }
      }
    }
  }
};

template <class T>
void multiply_on_cpu(const ExecSpace& space, std::int64_t m, std::int64_t n, std::int64_t k, const Strided<T>& a,
                     const Strided<T>& b, T* c, std::int64_t c_stride, bool add) {
  using Gemm = CpuGemm<T>;
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  const auto tile = Gemm::tile_of(space.concurrency(), m, n);
  const std::int64_t tile_m = tile.first, tile_n = tile.second;
  const std::size_t bytes = Gemm::scratch_bytes(tile_n);
  const std::int64_t tiles_n = (n + tile_n - 1) / tile_n;
  const std::int64_t tiles = (m + tile_m - 1) / tile_m * tiles_n;
  const auto policy =
      Policy(space, static_cast<int>(tiles), 1).set_scratch_size(1, Kokkos::PerTeam(static_cast<int>(bytes + 64)));
  Kokkos::parallel_for("lockstep::gemm::tiles", policy, [=](const typename Policy::member_type& team) {
    T* scratch = static_cast<T*>(team.team_scratch(1).get_shmem_aligned(bytes, 64));
    const std::int64_t i = team.league_rank() / tiles_n * tile_m;
    const std::int64_t j = team.league_rank() % tiles_n * tile_n;
    Gemm::tile({a.data + i * a.row, a.row, a.column}, {b.data + j * b.column, b.row, b.column}, c + i * c_stride + j,
               c_stride, std::min(tile_m, m - i), std::min(tile_n, n - j), k, add, scratch);
  });
}

}  // namespace lockstep
