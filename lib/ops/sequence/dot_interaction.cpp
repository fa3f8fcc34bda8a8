// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// The k + 1 vectors of each example, which lie in two tensors.
template <class T>
struct Vectors {
  T *first, *others;  // [n, d], [n, k, d]; either may be null
  std::int64_t k, d;

  /// Vector i of an example; null if its tensor is not wanted.
  KOKKOS_INLINE_FUNCTION T* at(std::int64_t example, std::int64_t i) const {
    if (i == 0) return first ? first + example * d : nullptr;
    return others ? others + (example * k + i - 1) * d : nullptr;
  }
};

/// Index of the product of vectors i and j < i in a row of y, counted after the first vector.
KOKKOS_INLINE_FUNCTION std::int64_t pair_of(std::int64_t i, std::int64_t j) { return i * (i - 1) / 2 + j; }

/// Each index has a vector of an example, and multiplies it by the vectors before it.
template <class T>
void multiply_pairs(const ExecSpace& space, std::int64_t n, const Vectors<const T>& z, T* y) {
  const std::int64_t vectors = z.k + 1, width = z.d + pair_of(vectors, 0);
  Kokkos::parallel_for(
      "lockstep::dot_interaction::forward", RangePolicy(space, 0, n * vectors),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t example = row_of(index, vectors), i = index - example * vectors;
        const T* const own = z.at(example, i);
        T* const row = y + example * width;
        if (i == 0)
          for (std::int64_t c = 0; c < z.d; ++c) row[c] = own[c];
        for (std::int64_t j = 0; j < i; ++j) {
          const T* const other = z.at(example, j);
          Compute<T> sum(0);
          for (std::int64_t c = 0; c < z.d; ++c) sum += Compute<T>(own[c]) * Compute<T>(other[c]);
          row[z.d + pair_of(i, j)] = T(sum);
        }
      });
}

/// dzi = Σj≠i (dy of the pair)·zj; for z0 also plus the first part of dy. Each index owns some columns of a vector.
template <class T>
void multiply_pairs_backward(const ExecSpace& space, std::int64_t n, const Vectors<const T>& z, const T* dy,
                             const Vectors<T>& dz) {
  const std::int64_t vectors = z.k + 1, width = z.d + pair_of(vectors, 0), tiles = tiles_of(z.d);
  Kokkos::parallel_for(
      "lockstep::dot_interaction::backward", RangePolicy(space, 0, n * vectors * tiles),
      KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t vector = row_of(index, tiles), begin = (index - vector * tiles) * column_tile;
        const std::int64_t example = row_of(vector, vectors), i = vector - example * vectors;
        T* const to = dz.at(example, i);
        if (!to) return;
        const int columns = static_cast<int>(z.d - begin < column_tile ? z.d - begin : column_tile);
        const T* const row = dy + example * width;
        Compute<T> sum[column_tile] = {};
        if (i == 0)
          for (int c = 0; c < columns; ++c) sum[c] = Compute<T>(row[begin + c]);
        for (std::int64_t j = 0; j < vectors; ++j) {
          if (j == i) continue;
          const Compute<T> gradient(row[z.d + (j < i ? pair_of(i, j) : pair_of(j, i))]);
          const T* const other = z.at(example, j) + begin;
          for (int c = 0; c < columns; ++c) sum[c] += gradient * Compute<T>(other[c]);
        }
        for (int c = 0; c < columns; ++c) to[begin + c] = T(sum[c]);
      });
}

template <class T>
Vectors<T> vectors_of(const Tensor& first, const Tensor& others, const Shape& shape) {
  return {first ? first.as<T>() : nullptr, others ? others.as<T>() : nullptr, shape[1], shape[2]};
}

}  // namespace

void dot_interaction_forward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& y) {
  dispatch_float(y.dtype, [&]<class T>(T) {
    multiply_pairs<T>(space, y.shape[0], vectors_of<const T>(first, others, others.shape), y.as<T>());
  });
}

void dot_interaction_backward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& dy,
                              const Tensor& dfirst, const Tensor& dothers) {
  dispatch_float(dy.dtype, [&]<class T>(T) {
    multiply_pairs_backward<T>(space, dy.shape[0], vectors_of<const T>(first, others, others.shape), dy.as<const T>(),
                               vectors_of<T>(dfirst, dothers, others.shape));
  });
}

}  // namespace lockstep
