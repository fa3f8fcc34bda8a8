// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/row_parts.hpp"

// How GPUs add up the rows of [rows, c]. Each team has one part of the rows. Each of its threads has a pack of
// neighbouring columns and every n-th row of the part. The threads' sums are added in the team's shared memory, and the
// sums of the parts by for_sums_of_parts.
namespace lockstep {

/// The rows and columns that one thread adds up.
struct ColumnRows {
  std::int64_t column;          ///< first column of its pack
  std::int64_t begin, end;      ///< rows of the part
  std::int64_t first, step, c;  ///< first row of the thread, and distance to its next one

  /// Calls f(lane, element of each array) for each element of the thread's rows. The arrays begin with row 0.
  template <int lanes, class F, class... Arrays>
  KOKKOS_INLINE_FUNCTION void for_each(const F& f, const Arrays&... arrays) const {
    constexpr int depth = sizeof...(Arrays) == 1 ? 8 : 4;  // rows whose loads are independent
    const ArrayList<Arrays...> list(arrays...);
    std::int64_t row = first;
    for (; row + (depth - 1) * step < end; row += depth * step)
      list.template do_packs<lanes, depth>(f, LaneNumber(), row * c + column, step * c);
    for (; row < end; row += step) list.template do_packs<lanes, 1>(f, LaneNumber(), row * c + column, 0);
  }
};

/// Number of threads in a team, and the largest number of packs that a team covers side by side.
inline constexpr int column_threads = 256;

template <int lanes, class Sum>
void add_columns(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t c, std::int64_t parts,
                 const Sum& sum) {
  using Team = Kokkos::TeamPolicy<ExecSpace>;
  using C = typename Sum::type;
  constexpr int kinds = Sum::count;
  const std::int64_t packs = c / lanes, tiles = (packs + column_threads - 1) / column_threads;
  Kokkos::parallel_for(
      label,
      Team(space, static_cast<int>(parts * tiles), team_threads(column_threads), 1)
          .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(sizeof(C)) * kinds * column_threads * lanes)),
      KOKKOS_LAMBDA(const typename Team::member_type& team) {
        const std::int64_t part = team.league_rank() / tiles, tile = team.league_rank() - part * tiles;
        const std::int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
        const std::int64_t first_pack = tile * column_threads;
        const int width = static_cast<int>(packs - first_pack < column_threads ? packs - first_pack : column_threads);
        const int height = column_threads / width;  // threads that share a pack of columns
        C* const shared = static_cast<C*>(
            team.team_shmem().get_shmem(static_cast<std::ptrdiff_t>(sizeof(C)) * kinds * column_threads * lanes));
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, width * height), [&](const int thread) {
          const int line = thread / width, pack = thread - line * width;
          C sums[kinds][lanes] = {};
          sum.template add<lanes>(ColumnRows{(first_pack + pack) * lanes, begin, end, begin + line, height, c}, sums);
          for (int k = 0; k < kinds; ++k)
            for (int l = 0; l < lanes; ++l) shared[((k * height + line) * width + pack) * lanes + l] = sums[k][l];
        });
        team.team_barrier();
        const int columns = width * lanes;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns), [&](const int j) {
          C sums[kinds] = {};
          for (int k = 0; k < kinds; ++k)
            for (int line = 0; line < height; ++line) sums[k] += shared[(k * height + line) * columns + j];
          sum.store(part, first_pack * lanes + j, begin, end, sums);
        });
      });
}

/// `Sum` provides: `type` of the sums; `count` of sums for each column; `lanes` of a pack;
///  - add<lanes>(ColumnRows, type (&sums)[count][lanes]): adds a thread's rows;
///  - store(part, column, begin, end, const type (&sums)[count]): takes the sums of a part's rows [begin, end).
/// `packed`: true if its arrays hold packs and c is a multiple of `lanes`.
template <class Sum>
void for_column_sums(const ExecSpace& space, const char* label, std::int64_t rows, std::int64_t c, std::int64_t parts,
                     bool packed, const Sum& sum) {
  if (packed) add_columns<Sum::lanes>(space, label, rows, c, parts, sum);
  else add_columns<1>(space, label, rows, c, parts, sum);
}

/// Layout of the parts' sums, in the order in which they are added up: one after the other on CPUs, by neighbouring
/// threads on GPUs.
template <class C>
struct Partials {
  C* data;
  std::int64_t kinds, c, parts;
  KOKKOS_INLINE_FUNCTION C& operator()(std::int64_t kind, std::int64_t part, std::int64_t column) const {
    if constexpr (thread_per_element) return data[(kind * c + column) * parts + part];
    else return data[(part * kinds + kind) * c + column];
  }
};

}  // namespace lockstep
