// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/dtype.hpp"
#include "ops/fast_math.hpp"
#include "ops/portable/micro_product.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

/// Attention of one head over one sequence, by one thread. Scores are stored transposed, [key][query], for as many
/// queries as a panel of the micro product is wide (n). One product thus leaves them in the layout that the next one
/// needs as its panel, and maxima and sums over keys need no operations across a vector.
template <class C>
struct CpuAttention {
  static constexpr int m = Micro<C>::m, n = Micro<C>::n;
  static constexpr std::int64_t block_keys = 16 * m;  // their scores stay in the level-1 cache
  using Panel = C[n];

  std::int64_t length, keys, size, width, row, key_row, columns;
  bool causal;
  C scale;

  explicit CpuAttention(const AttentionShape& shape)
      : length(shape.length),
        keys(shape.keys()),
        size(shape.head_size),
        width(shape.width()),
        row(shape.query_row()),
        key_row(shape.key_row()),
        columns((shape.head_size + n - 1) / n * n),
        causal(shape.causal),
        scale(static_cast<C>(1.0 / std::sqrt(static_cast<double>(shape.head_size)))) {}

  // Products write whole pieces of m rows, so all matrices that they access have m extra rows.
  std::int64_t matrix_elements() const { return (keys + m) * size; }
  std::int64_t panel_elements() const { return (size + m) * n; }
  static constexpr std::int64_t score_elements = (block_keys + m) * n;
  std::int64_t gradient_elements() const { return (keys + m) * columns; }
  std::int64_t scratch_elements() const {
    const std::int64_t all = 2 * matrix_elements() + 3 * panel_elements() + 2 * score_elements +
                             2 * gradient_elements() + 2 * n * columns + n * size;
    return (all + n - 1) / n * n;
  }

  /// The parts of one thread's scratch memory.
  struct Scratch {
    C *keys, *values;         // [keys, size]
    C *query, *dy, *sum;      // [size, n], for the queries of a panel
    C *scores, *dscores;      // [block_keys, n]
    C *dkeys, *dvalues;       // [keys, columns]
    C *query_rows, *dy_rows;  // [columns / n][n queries][n]
    C* rows;                  // [n queries][size]
  };
  Scratch divide(C* memory) const {
    const auto take = [&](std::int64_t count) { return std::exchange(memory, memory + count); };
    Scratch s;
    s.scores = take(score_elements), s.dscores = take(score_elements);
    s.query = take(panel_elements()), s.dy = take(panel_elements()), s.sum = take(panel_elements());
    s.dkeys = take(gradient_elements()), s.dvalues = take(gradient_elements());
    s.query_rows = take(n * columns), s.dy_rows = take(n * columns), s.rows = take(n * size);
    s.keys = take(matrix_elements()), s.values = take(matrix_elements());
    return s;
  }

  /// to [keys, size] = the rows of `from`, followed by m rows of zeros.
  template <class T>
  void gather(const T* from, C* to) const {
    for (std::int64_t t = 0; t < keys; ++t, from += key_row, to += size)
      for (std::int64_t j = 0; j < size; ++j) to[j] = C(from[j]);
    std::fill_n(to, m * size, C(0));
  }

  /// rows [n, size] = factor · the rows of up to n queries; 0 for missing queries. Copies whole rows first, as they are
  /// far apart in memory.
  template <class T>
  void gather_rows(const T* from, std::int64_t stride, int queries, C factor, C* rows) const {
    for (int l = 0; l < queries; ++l)
      for (std::int64_t j = 0; j < size; ++j) rows[l * size + j] = factor * C(from[l * stride + j]);
    std::fill(rows + queries * size, rows + n * size, C(0));
  }
  /// Prefetches the same rows of the neighbouring head, which is next, while this one is computed. (After the last head
  /// the addresses are invalid, which a prefetch ignores.)
  template <class T>
  void fetch_next(const T* q, int positions) const {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    for (int l = 0; l < positions; ++l)
      for (std::int64_t k = 0; k < row; k += width)
        for (std::int64_t j = 0; j < size; j += line) __builtin_prefetch(q + l * row + k + size + j);
  }
  /// Splits the rows into panels [columns / n][n queries][n].
  void split(const C* rows, C* panels) const {
    for (std::int64_t first = 0; first < columns; first += n)
      for (int l = 0; l < n; ++l, panels += n) {
        const std::int64_t width = std::min<std::int64_t>(n, size - first);
        std::copy_n(rows + l * size + first, width, panels);
        std::fill(panels + width, panels + n, C(0));
      }
  }
  /// Transposes a panel, multiplies it by `factor`, and writes it to the queries' rows of a result.
  template <class T>
  void scatter_panel(const C* panel, const Panel& factor, int queries, C* rows, T* to, std::int64_t stride) const {
    transpose(panel, size, n, rows);
    for (int l = 0; l < queries; ++l)
      for (std::int64_t j = 0; j < size; ++j) to[l * stride + j] = T(factor[l] * rows[l * size + j]);
  }

  /// The end of the keys that the panel of queries from `query` on attends to.
  std::int64_t last_key(std::int64_t query) const { return causal ? std::min(length, query + n) : keys; }

  /// scores [count, n] of the keys from `key` on; −∞ if the key is later than the query.
  void score(const Scratch& s, std::int64_t query, std::int64_t key, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += m)
      strided_micro_product<C>(size, s.keys + (key + i) * size, size, 1, s.query, s.scores + i * n, n, false);
    if (!causal) return;
    for (std::int64_t i = std::max<std::int64_t>(0, query + 1 - key); i < count; ++i)
      std::fill_n(s.scores + i * n, key + i - query, -std::numeric_limits<C>::infinity());
  }

  /// scores = e^(scores + offset), with one offset for each query.
  static void raise(C* scores, std::int64_t count, const Panel& offset) {
    for (std::int64_t i = 0; i < count; ++i, scores += n)
      for (int l = 0; l < n; ++l) scores[l] = fast_exp(scores[l] + offset[l]);
  }

  /// One block of the online softmax: replaces scores by e^(score − top) and updates `top` and `total`. Earlier results
  /// must be multiplied by `shrink`.
  static void soften(C* scores, std::int64_t count, Panel& top, Panel& total, Panel& shrink) {
    constexpr int lanes = VectorOf<C>::lanes;
    Vector<C> most[2] = {load(top), load(top + lanes)}, sum[2] = {};
    for (std::int64_t i = 0; i < count; ++i)
      for (int v = 0; v < 2; ++v) most[v] = larger(most[v], load(scores + i * n + v * lanes));
    Panel now, minus;
    for (int v = 0; v < 2; ++v) store<C>(most[v], now + v * lanes), store<C>(C(-1) * most[v], minus + v * lanes);
    raise(scores, count, minus);
    for (std::int64_t i = 0; i < count; ++i)
      for (int v = 0; v < 2; ++v) sum[v] = sum[v] + load(scores + i * n + v * lanes);
    Panel added;
    for (int v = 0; v < 2; ++v) store<C>(sum[v], added + v * lanes);
    for (int l = 0; l < n; ++l) {
      shrink[l] = fast_exp(top[l] - now[l]);
      total[l] = total[l] * shrink[l] + added[l];
      top[l] = now[l];
    }
  }

  /// q, k and y point to the head's columns at the sequence's first position, as do dq and dk.
  template <class T>
  void forward(const T* q, const T* k, T* y, C* logsumexp, C* memory) const {
    const Scratch s = divide(memory);
    gather(k, s.keys);
    gather(k + width, s.values);
    for (std::int64_t query = 0; query < length; query += n) {
      const int queries = static_cast<int>(std::min<std::int64_t>(n, length - query));
      gather_rows(q + query * row, row, queries, scale, s.rows);
      fetch_next(q + query * row, queries);
      transpose(s.rows, n, size, s.query);
      Panel top, total = {}, shrink, factor;
      std::fill_n(top, n, -std::numeric_limits<C>::infinity());
      for (std::int64_t key = 0; key < last_key(query); key += block_keys) {
        const std::int64_t count = std::min(block_keys, last_key(query) - key);
        score(s, query, key, count);
        soften(s.scores, count, top, total, shrink);
        if (key > 0)
          for (std::int64_t j = 0; j < size; ++j)
            for (int l = 0; l < n; ++l) s.sum[j * n + l] *= shrink[l];
        for (std::int64_t j = 0; j < size; j += m)
          strided_micro_product<C>(count, s.values + key * size + j, 1, size, s.scores, s.sum + j * n, n, key > 0);
      }
      for (int l = 0; l < n; ++l) factor[l] = C(1) / total[l];
      scatter_panel(s.sum, factor, queries, s.rows, y + query * width, width);
      for (int l = 0; l < queries; ++l) logsumexp[query + l] = top[l] + std::log(total[l]);
    }
  }

  /// Replaces scores by probabilities P, and dscores (which hold dP = dy·vᵀ) by P∘(dP − inner), where inner = Σ dy∘y.
  /// Fills the rest of the last piece with zeros.
  static void differentiate(C* scores, C* dscores, std::int64_t count, const Panel& logsumexp, const Panel& inner) {
    Panel minus, own;
    for (int l = 0; l < n; ++l) minus[l] = -logsumexp[l], own[l] = inner[l];
    raise(scores, count, minus);
    for (std::int64_t i = 0; i < count; ++i)
      for (int l = 0; l < n; ++l) dscores[i * n + l] = scores[i * n + l] * (dscores[i * n + l] - own[l]);
    const std::int64_t rest = ((count + m - 1) / m * m - count) * n;
    std::fill_n(scores + count * n, rest, C(0));
    std::fill_n(dscores + count * n, rest, C(0));
  }

  /// to [count, columns] += the transpose of a panel's `scores` times the queries' rows.
  void add_products(const C* scores, std::int64_t count, const C* rows, C* to) const {
    for (std::int64_t j = 0; j < columns; j += n)
      for (std::int64_t i = 0; i < count; i += m)
        strided_micro_product<C>(n, scores + i * n, n, 1, rows + j * n, to + i * columns + j, columns, true);
  }

  template <class T>
  void backward(const T* q, const T* k, const T* y, const C* logsumexp, const T* dy, T* dq, T* dk, C* memory) const {
    const Scratch s = divide(memory);
    gather(k, s.keys);
    gather(k + width, s.values);
    std::fill_n(s.dkeys, gradient_elements(), C(0));
    std::fill_n(s.dvalues, gradient_elements(), C(0));
    Panel scales;
    std::fill_n(scales, n, scale);
    for (std::int64_t query = 0; query < length; query += n) {
      const int queries = static_cast<int>(std::min<std::int64_t>(n, length - query));
      gather_rows(y + query * width, width, queries, C(1), s.rows);
      transpose(s.rows, n, size, s.sum);
      gather_rows(dy + query * width, width, queries, C(1), s.rows);
      transpose(s.rows, n, size, s.dy);
      split(s.rows, s.dy_rows);
      gather_rows(q + query * row, row, queries, scale, s.rows);
      fetch_next(q + query * row, queries);
      transpose(s.rows, n, size, s.query);
      split(s.rows, s.query_rows);
      Panel inner = {}, known = {};
      for (std::int64_t j = 0; j < size; ++j)
        for (int l = 0; l < n; ++l) inner[l] += s.dy[j * n + l] * s.sum[j * n + l];
      std::copy_n(logsumexp + query, queries, known);
      for (std::int64_t key = 0; key < last_key(query); key += block_keys) {
        const std::int64_t count = std::min(block_keys, last_key(query) - key);
        score(s, query, key, count);
        for (std::int64_t i = 0; i < count; i += m)
          strided_micro_product<C>(size, s.values + (key + i) * size, size, 1, s.dy, s.dscores + i * n, n, false);
        differentiate(s.scores, s.dscores, count, known, inner);
        for (std::int64_t j = 0; j < size; j += m)
          strided_micro_product<C>(count, s.keys + key * size + j, 1, size, s.dscores, s.sum + j * n, n, key > 0);
        add_products(s.scores, count, s.dy_rows, s.dvalues + key * columns);
        add_products(s.dscores, count, s.query_rows, s.dkeys + key * columns);
      }
      scatter_panel(s.sum, scales, queries, s.rows, dq + query * row, row);
    }
    for (std::int64_t t = 0; t < keys; ++t) {
      for (std::int64_t j = 0; j < size; ++j) dk[t * key_row + j] = T(s.dkeys[t * columns + j]);
      for (std::int64_t j = 0; j < size; ++j) dk[t * key_row + width + j] = T(s.dvalues[t * columns + j]);
    }
  }
};

/// Number of threads that share the heads of all sequences.
inline std::int64_t attention_parts(const AttentionShape& shape) {
  return std::min<std::int64_t>(planned_threads(), shape.n * shape.heads);
}

/// A head of a sequence, by its first elements in queries, keys, y and logsumexp.
struct HeadPlace {
  std::int64_t q, k, y, row;
};

/// Calls work(head of a sequence, scratch of the thread) for each head of all sequences.
template <class C, class Work>
void for_each_head(const char* label, const ExecSpace& space, const AttentionShape& shape, C* workspace, Work work) {
  const std::int64_t parts = attention_parts(shape), items = shape.n * shape.heads;
  const std::int64_t scratch = CpuAttention<C>(shape).scratch_elements();
  Kokkos::parallel_for(label, Kokkos::RangePolicy<ExecSpace>(space, 0, parts), [=](const int part) {
    for (std::int64_t item = items * part / parts; item < items * (part + 1) / parts; ++item) {
      const std::int64_t sequence = item / shape.heads, head = item % shape.heads;
      const std::int64_t column = head * shape.head_size;
      work(HeadPlace{sequence * shape.length * shape.query_row() + column,
                     sequence * shape.keys() * shape.key_row() + column,
                     sequence * shape.length * shape.width() + column, item * shape.length},
           workspace + part * scratch);
    }
  });
}

template <class T>
void attention_forward_on_cpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, T* y,
                              Compute<T>* logsumexp, Compute<T>* workspace) {
  const CpuAttention<Compute<T>> head(shape);
  for_each_head("lockstep::attention::forward", space, shape, workspace, [=](const HeadPlace& at, Compute<T>* scratch) {
    head.forward(q + at.q, k + at.k, y + at.y, logsumexp + at.row, scratch);
  });
}

template <class T>
void attention_backward_on_cpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, const T* y,
                               const Compute<T>* logsumexp, const T* dy, T* dq, T* dk, Compute<T>* workspace) {
  const CpuAttention<Compute<T>> head(shape);
  for_each_head(
      "lockstep::attention::backward", space, shape, workspace, [=](const HeadPlace& at, Compute<T>* scratch) {
        head.backward(q + at.q, k + at.k, y + at.y, logsumexp + at.row, dy + at.y, dq + at.q, dk + at.k, scratch);
      });
}

}  // namespace lockstep
