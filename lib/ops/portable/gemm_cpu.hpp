// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>

#include "core/execution.hpp"
#include "ops/portable/micro_product.hpp"
#include "ops/portable/strided.hpp"

namespace lockstep {

/// The product on CPUs, blocked as Goto & van de Geijn, "Anatomy of high-performance matrix
/// multiplication" (2008): a thread copies a block of A to its level-2 cache, then panel after panel
/// of B to its level-1 cache, and multiplies the two. Each tile of C is one thread's.
template <class T>
struct CpuGemm {
  static constexpr int depth = 256;  // terms at a time
  static constexpr int block_m = 192 * 4 / static_cast<int>(sizeof(T));
  static constexpr int scratch_elements = (block_m + Micro<T>::n) * depth;

  static std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

  /// Columns of C that a thread takes: all, unless that leaves threads without work.
  static std::int64_t tile_columns(int threads, std::int64_t m, std::int64_t n) {
    const std::int64_t tiles_m = (m + block_m - 1) / block_m;
    const std::int64_t wanted = threads == 1 ? 1 : (3 * threads + tiles_m - 1) / tiles_m;
    return std::max<std::int64_t>(Micro<T>::n, round_up((n + wanted - 1) / wanted, Micro<T>::n));
  }

  /// Panels [panel][k][width] of `count` lines. Where a line's neighbours lie far apart, squares are
  /// turned at a time, so that every cache line is read once.
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
    T* panel_b = scratch;
    T* block_a = scratch + n * depth;
    for (std::int64_t p = 0; p < k; p += depth) {
      const int terms = static_cast<int>(std::min<std::int64_t>(depth, k - p));
      pack<m>(a.data + p * a.column, a.row, a.column, rows, terms, block_a);
      for (std::int64_t j = 0; j < columns; j += n) {
        pack<n>(b.data + p * b.row + j * b.column, b.column, b.row, std::min<std::int64_t>(n, columns - j), terms, panel_b);
        for (std::int64_t i = 0; i < rows; i += m)
          micro_product<T>(terms, block_a + i * terms, panel_b, c + i * c_stride + j, c_stride, rows - i, columns - j,
                           add || p > 0);
      }
    }
  }
};

template <class T>
void multiply_on_cpu(const ExecSpace& space, std::int64_t m, std::int64_t n, std::int64_t k, const Strided<T>& a,
                     const Strided<T>& b, T* c, std::int64_t c_stride, bool add) {
  using Gemm = CpuGemm<T>;
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  constexpr std::size_t bytes = Gemm::scratch_elements * sizeof(T);
  const std::int64_t tile_n = Gemm::tile_columns(space.concurrency(), m, n);
  const std::int64_t tiles_n = (n + tile_n - 1) / tile_n;
  const std::int64_t tiles = (m + Gemm::block_m - 1) / Gemm::block_m * tiles_n;
  const auto policy =
      Policy(space, static_cast<int>(tiles), 1).set_scratch_size(1, Kokkos::PerTeam(static_cast<int>(bytes + 64)));
  Kokkos::parallel_for(
      "lockstep::gemm::tiles", policy, [=](const typename Policy::member_type& team) {
        T* scratch = static_cast<T*>(team.team_scratch(1).get_shmem_aligned(bytes, 64));
        const std::int64_t i = team.league_rank() / tiles_n * Gemm::block_m;
        const std::int64_t j = team.league_rank() % tiles_n * tile_n;
        Gemm::tile({a.data + i * a.row, a.row, a.column}, {b.data + j * b.column, b.row, b.column},
                   c + i * c_stride + j, c_stride, std::min<std::int64_t>(Gemm::block_m, m - i),
                   std::min(tile_n, n - j), k, add, scratch);
      });
}

}  // namespace lockstep
