// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/execution.hpp"
#include "ops/portable/attention_tiles.hpp"

namespace lockstep {

/// Computes y and logsumexp with an online softmax: sums are rescaled when a tile has a larger score.
template <class T, int team_size, int widths>
struct AttentionForward : TiledAttention<T, team_size, widths> {
  using Base = TiledAttention<T, team_size, widths>;
  using typename Base::C;
  static constexpr int pieces = Base::pieces, micro = Base::micro, tile = Base::tile;

  const T *q, *k;
  T* y;
  C* logsumexp;

  AttentionForward(const AttentionShape& s, const T* queries, const T* keys, T* result, C* sums)
      : Base(s), q(queries), k(keys), y(result), logsumexp(sums) {}

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const Base& a = *this;
    const auto s = Base::shared(team);
    const auto at = a.place(team, a.length);
    const auto queries = Base::lines(q + at.q, a.query_row, at.first, a.length);
    for (std::int64_t first = 0; first < a.size; first += Base::columns_at_once) {
      C top[pieces][micro], total[pieces][micro];  // total: over the thread's own columns
      for (int mine = 0; mine < pieces; ++mine)
        for (int r = 0; r < micro; ++r) top[mine][r] = -Kokkos::Experimental::infinity_v<C>, total[mine][r] = C(0);
      typename Base::Result result;
      Base::clear(result);
      for (std::int64_t key = 0; key < a.keys_of(at.first); key += tile) {
        typename Base::Square square;
        a.multiply_rows(team, s, queries, Base::lines(k + at.k, a.key_row, key, a.keys), square);
        C highest[pieces][micro];
        for (int mine = 0; mine < pieces; ++mine)
          for (int r = 0; r < micro; ++r) highest[mine][r] = top[mine][r];
        Base::for_square(team, [&](int mine, int r, int c, int row, int column) {
          C& score = square[mine][r][c];
          score = a.sees(at.first + row, key + column) ? a.scale * score : -Kokkos::Experimental::infinity_v<C>;
          highest[mine][r] = score > highest[mine][r] ? score : highest[mine][r];
        });
        Base::combine_rows(team, s, [](C one, C other) { return other > one ? other : one; }, highest);
        for (int mine = 0; mine < pieces; ++mine)
          for (int r = 0; r < micro; ++r) {
            const C shrink = Kokkos::exp(top[mine][r] - highest[mine][r]);
            top[mine][r] = highest[mine][r];
            total[mine][r] *= shrink;
            for (int w = 0; w < widths; ++w)
              for (int c = 0; c < micro; ++c) result[mine][w][r][c] *= shrink;
            for (int c = 0; c < micro; ++c) {
              square[mine][r][c] = Kokkos::exp(square[mine][r][c] - top[mine][r]);
              total[mine][r] += square[mine][r][c];
            }
          }
        a.add_product(team, s, square, Base::lines(k + at.k + a.width, a.key_row, key, a.keys), first, result);
      }
      Base::combine_rows(team, s, [](C one, C other) { return one + other; }, total);
      for (int mine = 0; mine < pieces; ++mine)
        for (int r = 0; r < micro; ++r) {
          const std::int64_t query = at.first + Base::row_panel(team, mine) * micro + r;
          if (first == 0 && Base::column_panel(team, mine) == 0 && query < a.length)
            logsumexp[at.scalar + query] = top[mine][r] + Kokkos::log(total[mine][r]);
        }
      a.for_result(team, result, a.length - at.first, first,
                   [&](int mine, int r, std::int64_t row, std::int64_t column, C value) {
                     y[at.y + (at.first + row) * a.width + column] = T(value / total[mine][r]);
                   });
    }
  }
};

/// The tensors that both kernels of the backward pass use; inner [n, heads, T] = Σ dy∘y.
template <class T>
struct AttentionGradients {
  const T *q, *k, *y, *dy;
  const Compute<T>* logsumexp;
  T *dq, *dk;
  Compute<T>* inner;
};

/// Computes dq and inner.
template <class T, int team_size, int widths>
struct AttentionDQuery : TiledAttention<T, team_size, widths> {
  using Base = TiledAttention<T, team_size, widths>;
  using typename Base::C;
  static constexpr int pieces = Base::pieces, micro = Base::micro, tile = Base::tile;

  AttentionGradients<T> g;

  AttentionDQuery(const AttentionShape& s, const AttentionGradients<T>& gradients) : Base(s), g(gradients) {}

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const Base& a = *this;
    const auto s = Base::shared(team);
    const auto at = a.place(team, a.length);
    const auto queries = Base::lines(g.q + at.q, a.query_row, at.first, a.length),
               results = Base::lines(g.y + at.y, a.width, at.first, a.length),
               gradients = Base::lines(g.dy + at.y, a.width, at.first, a.length);
    C own[pieces][micro], known[pieces][micro];
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r) {
        const std::int64_t row = Base::row_panel(team, mine) * micro + r;
        own[mine][r] = C(0);
        for (std::int64_t j = Base::column_panel(team, mine); j < a.size; j += Base::panels)
          own[mine][r] += gradients.at(row, j) * results.at(row, j);
        known[mine][r] = row < queries.count ? g.logsumexp[at.scalar + at.first + row] : C(0);
      }
    Base::combine_rows(team, s, [](C one, C other) { return one + other; }, own);
    for (int mine = 0; mine < pieces; ++mine)
      for (int r = 0; r < micro; ++r) {
        const std::int64_t row = Base::row_panel(team, mine) * micro + r;
        if (Base::column_panel(team, mine) == 0 && row < queries.count)
          g.inner[at.scalar + at.first + row] = own[mine][r];
      }
    for (std::int64_t first = 0; first < a.size; first += Base::columns_at_once) {
      typename Base::Result result;
      Base::clear(result);
      for (std::int64_t key = 0; key < a.keys_of(at.first); key += tile) {
        const auto keys = Base::lines(g.k + at.k, a.key_row, key, a.keys),
                   values = Base::lines(g.k + at.k + a.width, a.key_row, key, a.keys);
        typename Base::Square scores, square;
        a.multiply_rows(team, s, queries, keys, scores);
        a.multiply_rows(team, s, gradients, values, square);
        Base::for_square(team, [&](int mine, int r, int c, int row, int column) {
          const C probability = a.sees(at.first + row, key + column)
                                    ? Kokkos::exp(a.scale * scores[mine][r][c] - known[mine][r])
                                    : C(0);
          square[mine][r][c] = probability * (square[mine][r][c] - own[mine][r]);
        });
        a.add_product(team, s, square, keys, first, result);
      }
      a.for_result(team, result, queries.count, first, [&](int, int, std::int64_t row, std::int64_t column, C value) {
        g.dq[at.q + (at.first + row) * a.query_row + column] = T(a.scale * value);
      });
    }
  }
};

/// Computes dk and dv; reads inner.
template <class T, int team_size, int widths>
struct AttentionDKey : TiledAttention<T, team_size, widths> {
  using Base = TiledAttention<T, team_size, widths>;
  using typename Base::C;
  static constexpr int tile = Base::tile;

  AttentionGradients<T> g;

  AttentionDKey(const AttentionShape& s, const AttentionGradients<T>& gradients) : Base(s), g(gradients) {}

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const Base& a = *this;
    const auto s = Base::shared(team);
    const auto at = a.place(team, a.keys);
    const auto keys = Base::lines(g.k + at.k, a.key_row, at.first, a.keys),
               values = Base::lines(g.k + at.k + a.width, a.key_row, at.first, a.keys);
    for (std::int64_t first = 0; first < a.size; first += Base::columns_at_once) {
      typename Base::Result dkey, dvalue;
      Base::clear(dkey);
      Base::clear(dvalue);
      for (std::int64_t query = a.causal ? at.first : 0; query < a.length; query += tile) {
        const auto queries = Base::lines(g.q + at.q, a.query_row, query, a.length),
                   gradients = Base::lines(g.dy + at.y, a.width, query, a.length);
        typename Base::Square probabilities, dscores;
        a.multiply_rows(team, s, keys, queries, probabilities);
        Base::for_square(team, [&](int mine, int r, int c, int row, int column) {
          C& p = probabilities[mine][r][c];
          const bool seen = column < queries.count && a.sees(query + column, at.first + row);
          p = seen ? Kokkos::exp(a.scale * p - g.logsumexp[at.scalar + query + column]) : C(0);
        });
        a.multiply_rows(team, s, values, gradients, dscores);
        Base::for_square(team, [&](int mine, int r, int c, int, int column) {
          const C own = column < queries.count ? g.inner[at.scalar + query + column] : C(0);
          dscores[mine][r][c] = probabilities[mine][r][c] * (dscores[mine][r][c] - own);
        });
        a.add_product(team, s, probabilities, gradients, first, dvalue);
        a.add_product(team, s, dscores, queries, first, dkey);
      }
      T* const to = g.dk + at.k + at.first * a.key_row;
      a.for_result(team, dkey, keys.count, first, [&](int, int, std::int64_t row, std::int64_t column, C value) {
        to[row * a.key_row + column] = T(a.scale * value);
      });
      a.for_result(team, dvalue, keys.count, first, [&](int, int, std::int64_t row, std::int64_t column, C value) {
        to[row * a.key_row + a.width + column] = T(value);
      });
    }
  }
};

/// Runs one team for each tile of positions of all heads of all sequences.
template <class Kernel>
void run_attention(const ExecSpace& space, const char* label, const AttentionShape& s, std::int64_t positions,
                   const Kernel& kernel) {
  const auto teams = static_cast<int>(s.n * s.heads * Kernel::tiles(positions));
  const auto policy = Kokkos::TeamPolicy<ExecSpace>(space, teams, Kernel::team_size)
                          .set_scratch_size(Kernel::scratch_level,
                                            Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes)));
  Kokkos::parallel_for(label, policy, kernel);
}

/// `widths` for wide heads: as many sums as registers hold.
template <class T>
inline constexpr int most_widths = sizeof(Compute<T>) == 8 ? 1 : 2;

template <class T, int widths>
struct AttentionOnGpu {
  static constexpr int team_size = team_threads(256);

  static void forward(const ExecSpace& space, const AttentionShape& s, const T* q, const T* k, T* y,
                      Compute<T>* logsumexp) {
    run_attention(space, "lockstep::attention::forward", s, s.length,
                  AttentionForward<T, team_size, widths>(s, q, k, y, logsumexp));
  }
  static void backward(const ExecSpace& space, const AttentionShape& s, const AttentionGradients<T>& g) {
    run_attention(space, "lockstep::attention::dquery", s, s.length, AttentionDQuery<T, team_size, widths>(s, g));
    run_attention(space, "lockstep::attention::dkey", s, s.keys(), AttentionDKey<T, team_size, widths>(s, g));
  }
};

template <class T>
void attention_forward_on_gpu(const ExecSpace& space, const AttentionShape& s, const T* q, const T* k, T* y,
                              Compute<T>* logsumexp) {
  if (s.head_size <= 64) AttentionOnGpu<T, 1>::forward(space, s, q, k, y, logsumexp);
  else AttentionOnGpu<T, most_widths<T>>::forward(space, s, q, k, y, logsumexp);
}

/// `workspace`: [n, heads, T].
template <class T>
void attention_backward_on_gpu(const ExecSpace& space, const AttentionShape& s, const T* q, const T* k, const T* y,
                               const Compute<T>* logsumexp, const T* dy, T* dq, T* dk, Compute<T>* workspace) {
  const AttentionGradients<T> g{q, k, y, dy, logsumexp, dq, dk, workspace};
  if (s.head_size <= 64) AttentionOnGpu<T, 1>::backward(space, s, g);
  else AttentionOnGpu<T, most_widths<T>>::backward(space, s, g);
}

}  // namespace lockstep
