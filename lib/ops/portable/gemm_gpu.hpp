// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/execution.hpp"
#include "ops/portable/strided.hpp"

namespace lockstep {

/// The product on GPUs: a team of 256 threads computes a tile of C, 4×4 numbers a thread, from tiles
/// of A and B in shared memory.
struct GpuTile {
  static constexpr int micro = 4;
  static constexpr int tile = 64;
  static constexpr int depth = 32;
  static constexpr int threads = (tile / micro) * (tile / micro);
};

/// Panels [panel][k][micro] of `count` lines; the team shares the lines.
template <class T, class Team>
KOKKOS_INLINE_FUNCTION void pack_shared(const Team& team, const T* from, std::int64_t along, std::int64_t stride_k,
                                        std::int64_t count, int k, T* packed) {
  constexpr int micro = GpuTile::micro, panels = GpuTile::tile / micro;
  for (int index = team.team_rank(); index < panels * k; index += team.team_size()) {
    const int panel = index / k, p = index % k;
    const std::int64_t first = static_cast<std::int64_t>(panel) * micro;
    pack_line<micro>(from + first * along + p * stride_k, along, count - first,
                     packed + (panel * GpuTile::depth + p) * micro);
  }
}

template <class T>
void multiply_on_gpu(const ExecSpace& space, std::int64_t m, std::int64_t n, std::int64_t k, const Strided<T>& a,
                     const Strided<T>& b, T* c, std::int64_t c_stride, bool add) {
  using Policy = Kokkos::TeamPolicy<ExecSpace>;
  using Team = typename Policy::member_type;
  constexpr int tile = GpuTile::tile, micro = GpuTile::micro, depth = GpuTile::depth;
  constexpr std::size_t bytes = 2 * tile * depth * sizeof(T);
  const std::int64_t tiles_n = (n + tile - 1) / tile;
  const std::int64_t tiles = (m + tile - 1) / tile * tiles_n;
  const auto policy = Policy(space, static_cast<int>(tiles), GpuTile::threads)
                          .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(bytes + 64)));
  Kokkos::parallel_for(
      "lockstep::gemm::tiles", policy, KOKKOS_LAMBDA(const Team& team) {
        T* shared_a = static_cast<T*>(team.team_scratch(0).get_shmem_aligned(bytes, 64));
        T* shared_b = shared_a + tile * depth;
        const std::int64_t i = team.league_rank() / tiles_n * tile, j = team.league_rank() % tiles_n * tile;
        const int piece_i = team.team_rank() / (tile / micro), piece_j = team.team_rank() % (tile / micro);
        T sum[micro][micro] = {};
        for (std::int64_t p = 0; p < k; p += depth) {
          const int terms = static_cast<int>(k - p < depth ? k - p : depth);
          team.team_barrier();  // nobody still reads the tiles before
          pack_shared(team, a.data + i * a.row + p * a.column, a.row, a.column, m - i, terms, shared_a);
          pack_shared(team, b.data + p * b.row + j * b.column, b.column, b.row, n - j, terms, shared_b);
          team.team_barrier();
          for (int q = 0; q < terms; ++q)
            for (int r = 0; r < micro; ++r)
              for (int s = 0; s < micro; ++s)
                sum[r][s] += shared_a[(piece_i * depth + q) * micro + r] * shared_b[(piece_j * depth + q) * micro + s];
        }
        for (int r = 0; r < micro; ++r)
          for (int s = 0; s < micro; ++s) {
            const std::int64_t row = i + piece_i * micro + r, column = j + piece_j * micro + s;
            if (row >= m || column >= n) continue;
            T& result = c[row * c_stride + column];
            result = add ? result + sum[r][s] : sum[r][s];
          }
      });
}

}  // namespace lockstep
