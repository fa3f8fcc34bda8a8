// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>

#include "core/execution.hpp"
#include "core/float16.hpp"
#include "ops/attention.hpp"

namespace lockstep {

/// Attention with a thread for each query (forward, dq) or key (dk, dv), which has its scores one at a
/// time; columns of results are made a few at a time, in loops of known length, so that they stay in registers.
struct GpuAttention {
  static constexpr int chunk = 32;

  std::int64_t length, all_keys, heads, size, width, query_row, key_row;
  bool causal;
  double scale;

  /// A position of a sequence, as one head sees it.
  struct Place {
    std::int64_t position, q, k, y, row;  // row: of logsumexp; q, k, y: elements of the sequence's first position
  };
  /// The index-th of so many positions of all heads of all sequences.
  KOKKOS_INLINE_FUNCTION Place place(std::int64_t index, std::int64_t positions) const {
    const std::int64_t item = index / positions, sequence = item / heads, column = item % heads * size;
    return {index % positions, sequence * length * query_row + column, sequence * all_keys * key_row + column,
            sequence * length * width + column, item * length};
  }
  KOKKOS_INLINE_FUNCTION std::int64_t keys(std::int64_t query) const { return causal ? query + 1 : all_keys; }

  template <class T>
  KOKKOS_INLINE_FUNCTION Compute<T> dot(const T* a, const T* b) const {
    Compute<T> sum(0);
    for (std::int64_t j = 0; j < size; ++j) sum += Compute<T>(a[j]) * Compute<T>(b[j]);
    return sum;
  }
};

inline GpuAttention gpu_attention(const AttentionShape& s) {
  return {s.length,    s.keys(),  s.heads,
          s.head_size, s.width(), s.query_row(),
          s.key_row(), s.causal,  1.0 / std::sqrt(static_cast<double>(s.head_size))};
}

template <class T>
void attention_forward_on_gpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, T* y,
                              Compute<T>* logsumexp) {
  using C = Compute<T>;
  const GpuAttention a = gpu_attention(shape);
  Kokkos::parallel_for(
      "lockstep::attention::forward", RangePolicy(space, 0, shape.n * shape.heads * shape.length),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const GpuAttention::Place at = a.place(index, a.length);
        const std::int64_t keys = a.keys(at.position);
        const T* query = q + at.q + at.position * a.query_row;
        const T* key = k + at.k;
        const C scale = static_cast<C>(a.scale);
        C top = scale * a.dot(query, key), total = C(1);
        for (std::int64_t t = 1; t < keys; ++t) {
          const C score = scale * a.dot(query, key + t * a.key_row);
          const C before = top;
          top = score > top ? score : top;
          total = total * Kokkos::exp(before - top) + Kokkos::exp(score - top);
        }
        const C known = top + Kokkos::log(total);
        logsumexp[index] = known;
        for (std::int64_t first = 0; first < a.size; first += GpuAttention::chunk) {
          const int count = static_cast<int>(a.size - first < GpuAttention::chunk ? a.size - first
                                                                                  : GpuAttention::chunk);
          C sum[GpuAttention::chunk] = {};
          for (std::int64_t t = 0; t < keys; ++t) {
            const C probability = Kokkos::exp(scale * a.dot(query, key + t * a.key_row) - known);
            const T* value = key + t * a.key_row + a.width + first;
            for (int j = 0; j < GpuAttention::chunk; ++j)
              if (j < count) sum[j] += probability * C(value[j]);
          }
          for (int j = 0; j < GpuAttention::chunk; ++j)
            if (j < count) y[at.y + at.position * a.width + first + j] = T(sum[j]);
        }
      });
}

/// dq, and inner [n, heads, T] = Σ dy∘y.
template <class T>
void attention_dquery_on_gpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, const T* y,
                             const Compute<T>* logsumexp, const T* dy, T* dq, Compute<T>* inner) {
  using C = Compute<T>;
  const GpuAttention a = gpu_attention(shape);
  Kokkos::parallel_for(
      "lockstep::attention::dquery", RangePolicy(space, 0, shape.n * shape.heads * shape.length),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const GpuAttention::Place at = a.place(index, a.length);
        const T* query = q + at.q + at.position * a.query_row;
        const T* key = k + at.k;
        const T* gradient = dy + at.y + at.position * a.width;
        const C scale = static_cast<C>(a.scale), own = a.dot(gradient, y + at.y + at.position * a.width);
        inner[index] = own;
        for (std::int64_t first = 0; first < a.size; first += GpuAttention::chunk) {
          const int count = static_cast<int>(a.size - first < GpuAttention::chunk ? a.size - first
                                                                                  : GpuAttention::chunk);
          C sum[GpuAttention::chunk] = {};
          for (std::int64_t t = 0; t < a.keys(at.position); ++t) {
            const T* other = key + t * a.key_row;
            const C probability = Kokkos::exp(scale * a.dot(query, other) - logsumexp[index]);
            const C dscore = probability * (a.dot(gradient, other + a.width) - own);
            for (int j = 0; j < GpuAttention::chunk; ++j)
              if (j < count) sum[j] += dscore * C(other[first + j]);
          }
          for (int j = 0; j < GpuAttention::chunk; ++j)
            if (j < count) dq[at.q + at.position * a.query_row + first + j] = T(scale * sum[j]);
        }
      });
}

template <class T>
void attention_dkey_on_gpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k,
                           const Compute<T>* logsumexp, const T* dy, const Compute<T>* inner, T* dk) {
  using C = Compute<T>;
  const GpuAttention a = gpu_attention(shape);
  Kokkos::parallel_for(
      "lockstep::attention::dkey", RangePolicy(space, 0, shape.n * shape.heads * shape.keys()),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const GpuAttention::Place at = a.place(index, a.all_keys);
        const T* key = k + at.k + at.position * a.key_row;
        const C scale = static_cast<C>(a.scale);
        for (std::int64_t first = 0; first < a.size; first += GpuAttention::chunk) {
          const int count = static_cast<int>(a.size - first < GpuAttention::chunk ? a.size - first
                                                                                  : GpuAttention::chunk);
          C dkey[GpuAttention::chunk] = {}, dvalue[GpuAttention::chunk] = {};
          for (std::int64_t t = a.causal ? at.position : 0; t < a.length; ++t) {
            const T* query = q + at.q + t * a.query_row;
            const T* gradient = dy + at.y + t * a.width;
            const C probability = Kokkos::exp(scale * a.dot(query, key) - logsumexp[at.row + t]);
            const C dscore = scale * probability * (a.dot(gradient, key + a.width) - inner[at.row + t]);
            for (int j = 0; j < GpuAttention::chunk; ++j) {
              if (j >= count) continue;
              dkey[j] += dscore * C(query[first + j]);
              dvalue[j] += probability * C(gradient[first + j]);
            }
          }
          T* to = dk + at.k + at.position * a.key_row + first;
          for (int j = 0; j < GpuAttention::chunk; ++j)
            if (j < count) to[j] = T(dkey[j]), to[a.width + j] = T(dvalue[j]);
        }
      });
}

/// workspace [n, heads, T].
template <class T>
void attention_backward_on_gpu(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, const T* y,
                               const Compute<T>* logsumexp, const T* dy, T* dq, T* dk, Compute<T>* workspace) {
  attention_dquery_on_gpu<T>(space, shape, q, k, y, logsumexp, dy, dq, workspace);
  attention_dkey_on_gpu<T>(space, shape, q, k, logsumexp, dy, workspace, dk);
}

}  // namespace lockstep
