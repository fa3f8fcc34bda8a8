// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/execution.hpp"
#include "ops/portable/micro_product.hpp"

namespace lockstep {

/// The product on GPUs: a team of 256 threads computes a tile of C, 4×4 numbers for each thread, from tiles of A and B
/// in shared memory.
struct GpuTile {
  static constexpr int micro = 4;
  static constexpr int tile = 64;
  static constexpr int depth = 32;
  static constexpr int panel = (depth + 1) * micro;  // padded so that neighbouring panels begin in different banks
  static constexpr int threads = (tile / micro) * (tile / micro);
};

/// Copies `count` lines to panels [panel][k][micro], with the lines shared among the team.
template <class T, class Team>
KOKKOS_INLINE_FUNCTION void pack_shared(const Team& team, const T* from, std::int64_t along, std::int64_t stride_k,
                                        std::int64_t count, int k, T* packed) {
  constexpr int micro = GpuTile::micro, panels = GpuTile::tile / micro;
  for (int index = team.team_rank(); index < panels * k; index += team.team_size()) {
    const int panel = index / k, p = index % k;
    const std::int64_t first = static_cast<std::int64_t>(panel) * micro;
    pack_line<micro>(from + first * along + p * stride_k, along, count - first,
                     packed + panel * GpuTile::panel + p * micro);
  }
}

/// C = A·B, or C += A·B, by a league with one team for each tile of C. The pieces of 4×4 numbers are divided among
/// `team_size` threads, each of which keeps the sums of its pieces.
template <class T, int team_size>
struct GpuProduct {
  static constexpr int tile = GpuTile::tile, micro = GpuTile::micro, depth = GpuTile::depth;
  static constexpr int pieces = GpuTile::threads / team_size;  // pieces of each thread
  static constexpr int panel = GpuTile::panel;
  static constexpr std::size_t tile_bytes = tile / micro * panel * sizeof(T);
  static constexpr std::size_t scratch_bytes = 2 * tile_bytes + 64;

  std::int64_t m, n, k;
  Strided<T> a, b;
  T* c;
  std::int64_t c_stride;
  bool add;

  static std::int64_t tiles(std::int64_t m, std::int64_t n) { return (m + tile - 1) / tile * tiles_along(n); }
  KOKKOS_INLINE_FUNCTION static std::int64_t tiles_along(std::int64_t n) { return (n + tile - 1) / tile; }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    T* shared_a = static_cast<T*>(team.team_scratch(0).get_shmem_aligned(2 * tile_bytes, 64));
    T* shared_b = shared_a + tile / micro * panel;
    const std::int64_t i = team.league_rank() / tiles_along(n) * tile, j = team.league_rank() % tiles_along(n) * tile;
    T sum[pieces][micro][micro] = {};
    for (std::int64_t p = 0; p < k; p += depth) {
      const int terms = static_cast<int>(k - p < depth ? k - p : depth);
      team.team_barrier();  // until no thread reads the previous tiles
      pack_shared(team, a.data + i * a.row + p * a.column, a.row, a.column, m - i, terms, shared_a);
      pack_shared(team, b.data + p * b.row + j * b.column, b.column, b.row, n - j, terms, shared_b);
      team.team_barrier();
      for (int mine = 0; mine < pieces; ++mine) {
        const T* piece_a = shared_a + row_of(team, mine) * panel;
        const T* piece_b = shared_b + column_of(team, mine) * panel;
        for (int q = 0; q < terms; ++q)
          for (int r = 0; r < micro; ++r)
            for (int s = 0; s < micro; ++s) sum[mine][r][s] += piece_a[q * micro + r] * piece_b[q * micro + s];
      }
    }
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r)
        for (int s = 0; s < micro; ++s) {
          const std::int64_t row = i + row_of(team, mine) * micro + r, column = j + column_of(team, mine) * micro + s;
          if (row >= m || column >= n) continue;
          T& result = c[row * c_stride + column];
          result = add ? result + sum[mine][r][s] : sum[mine][r][s];
        }
  }

 private:
  /// The position of the thread's piece number `mine` in the tile, in units of pieces.
  template <class Team>
  KOKKOS_INLINE_FUNCTION static int row_of(const Team& team, int mine) {
    return (team.team_rank() + mine * team_size) / (tile / micro);
  }
  template <class Team>
  KOKKOS_INLINE_FUNCTION static int column_of(const Team& team, int mine) {
    return (team.team_rank() + mine * team_size) % (tile / micro);
  }
};

template <class T>
void multiply_on_gpu(const ExecSpace& space, std::int64_t m, std::int64_t n, std::int64_t k, const Strided<T>& a,
                     const Strided<T>& b, T* c, std::int64_t c_stride, bool add) {
  constexpr int team_size = team_threads(GpuTile::threads);
  using Product = GpuProduct<T, team_size>;
  const auto policy = Kokkos::TeamPolicy<ExecSpace>(space, static_cast<int>(Product::tiles(m, n)), team_size)
                          .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Product::scratch_bytes)));
  Kokkos::parallel_for("lockstep::gemm::tiles", policy, Product{m, n, k, a, b, c, c_stride, add});
}

}  // namespace lockstep
