// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/products/gemm.hpp"

namespace lockstep {

// The innermost loop of the product on CPUs: an m × n piece of C that stays in vector registers. GCC keeps such a piece
// in registers if it uses GCC's vector types (which Clang and its derivatives have, too), but not as plain arrays.
// Device compilers get the plain arrays, and do not run this code.

// Size in bytes of the vector registers of the target CPU.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__SYCL_COMPILER_VERSION)
template <class T>
struct VectorOf {
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
  struct type {
    T lane[lanes];
    friend type operator+(type a, const type& b) {
      for (int i = 0; i < lanes; ++i) a.lane[i] += b.lane[i];
      return a;
    }
    friend type operator*(T a, type b) {
      for (int i = 0; i < lanes; ++i) b.lane[i] *= a;
      return b;
    }
    friend type larger(type a, const type& b) {
      for (int i = 0; i < lanes; ++i) a.lane[i] = a.lane[i] < b.lane[i] ? b.lane[i] : a.lane[i];
      return a;
    }
  };
};
template <int first, class V>
V interleave(const V& a, const V& b) {
  V both;
  for (int i = 0; i < static_cast<int>(std::size(a.lane)); ++i) both.lane[i] = (i % 2 == 0 ? a : b).lane[first + i / 2];
  return both;
}
#else
template <class V>
V larger(V a, V b) {
  return a < b ? b : a;
}
template <class T>
struct VectorOf {
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));
  typedef T type __attribute__((vector_size(vector_bytes)));
};
/// Interleaves the lanes of a and b, starting at lane `first` of each.
template <int first, class V>
V interleave(const V& a, const V& b) {
  constexpr int lanes = static_cast<int>(sizeof(V) / sizeof(a[0]));
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * lanes)...);
  }(std::make_integer_sequence<int, lanes>());
}
#endif

template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
Vector<T> load(const T* from) {
  Vector<T> vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
template <class T>
void store(const Vector<T>& vector, T* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// to [lanes, lanes] = the transpose of `from`, one vector for each row. Each round interleaves the two halves of the
/// rows.
template <class T, int round = 1>
[[gnu::always_inline]] inline void transpose_rows(Vector<T> (&row)[VectorOf<T>::lanes]) {
  constexpr int lanes = VectorOf<T>::lanes;
  if constexpr (round < lanes) {
    Vector<T> shuffled[lanes];
    for (int i = 0; i < lanes / 2; ++i) {
      shuffled[2 * i] = interleave<0>(row[i], row[i + lanes / 2]);
      shuffled[2 * i + 1] = interleave<lanes / 2>(row[i], row[i + lanes / 2]);
    }
    transpose_rows<T, 2 * round>(shuffled);
    for (int i = 0; i < lanes; ++i) row[i] = shuffled[i];
  }
}
template <class T>
void transpose_square(const T* from, std::int64_t from_row, T* to, std::int64_t to_row) {
  constexpr int lanes = VectorOf<T>::lanes;
  Vector<T> row[lanes];
  for (int i = 0; i < lanes; ++i) row[i] = load(from + i * from_row);
  transpose_rows<T>(row);
  for (int i = 0; i < lanes; ++i) store<T>(row[i], to + i * to_row);
}

/// to [columns, rows] = the transpose of from [rows, columns].
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr int lanes = VectorOf<T>::lanes;
  for (std::int64_t i = 0; i < rows; i += lanes)
    for (std::int64_t j = 0; j < columns; j += lanes) {
      if (i + lanes <= rows && j + lanes <= columns) {
        transpose_square(from + i * columns + j, columns, to + j * rows + i, rows);
        continue;
      }
      for (std::int64_t row = i; row < rows && row < i + lanes; ++row)
        for (std::int64_t column = j; column < columns && column < j + lanes; ++column)
          to[column * rows + row] = from[row * columns + column];
    }
}

template <class T>
struct Micro {
  // The sums fill 12 of 16 registers, or 24 of 32.
  static constexpr int m = vector_bytes == 64 ? 12 : 6;
  static constexpr int vectors = 2;
  static constexpr int n = vectors * VectorOf<T>::lanes;
};

/// Adds one term of an m × n piece: sum[i] += a[i·a_row]·b.
template <class T>
[[gnu::always_inline]] inline void add_term(Vector<T> (&sum)[Micro<T>::m][2], const T* a, std::int64_t a_row,
                                            const T* b) {
  const Vector<T> b0 = load(b), b1 = load(b + VectorOf<T>::lanes);
  for (int i = 0; i < Micro<T>::m; ++i) {
    sum[i][0] = sum[i][0] + a[i * a_row] * b0;
    sum[i][1] = sum[i][1] + a[i * a_row] * b1;
  }
}

/// c (+)= a·b with panels a [k][m] and b [k][n]; only `rows` × `columns` of c exist.
template <class T>
void micro_product(int k, const T* a, const T* b, T* c, std::int64_t c_stride, std::int64_t rows, std::int64_t columns,
                   bool add) {
  constexpr int m = Micro<T>::m, n = Micro<T>::n, lanes = VectorOf<T>::lanes;
  Vector<T> sum[m][2] = {};
  for (int p = 0; p < k; ++p, a += m, b += n) add_term<T>(sum, a, 1, b);
  if (rows >= m && columns >= n) {
    for (int i = 0; i < m; ++i, c += c_stride) {
      store<T>(add ? sum[i][0] + load(c) : sum[i][0], c);
      store<T>(add ? sum[i][1] + load(c + lanes) : sum[i][1], c + lanes);
    }
    return;
  }
  T whole[m][n];
  for (int i = 0; i < m; ++i) store<T>(sum[i][0], whole[i]), store<T>(sum[i][1], whole[i] + lanes);
  for (std::int64_t i = 0; i < (rows < m ? rows : m); ++i)
    for (std::int64_t j = 0; j < (columns < n ? columns : n); ++j)
      c[i * c_stride + j] = add ? c[i * c_stride + j] + whole[i][j] : whole[i][j];
}

/// micro_product for a whole m × n piece, with an a whose element (i, p) is a[i·a_row + p·a_step]: for products that
/// are too small to pay for a copy of a. Panel b is [k][n].
template <class T>
void strided_micro_product(std::int64_t k, const T* a, std::int64_t a_row, std::int64_t a_step, const T* b, T* c,
                           std::int64_t c_stride, bool add) {
  constexpr int m = Micro<T>::m, n = Micro<T>::n, lanes = VectorOf<T>::lanes;
  Vector<T> sum[m][2] = {};
  for (std::int64_t p = 0; p < k; ++p, a += a_step, b += n) add_term<T>(sum, a, a_row, b);
  for (int i = 0; i < m; ++i, c += c_stride) {
    store<T>(add ? sum[i][0] + load(c) : sum[i][0], c);
    store<T>(add ? sum[i][1] + load(c + lanes) : sum[i][1], c + lanes);
  }
}

/// micro_product for an a of `lines` lines of `width` terms, whose element (i, line, p) is a[i + line·a_line +
/// p·a_step]. Panel b is [lines·width][n]; only the first `rows` rows of c exist. Not inlined, because inside its
/// callers' loops it would run out of registers.
template <class T>
[[gnu::noinline]] void window_micro_product(std::int64_t lines, std::int64_t width, const T* a, std::int64_t a_line,
                                            std::int64_t a_step, const T* b, T* c, std::int64_t c_stride,
                                            std::int64_t rows, bool add) {
  constexpr int m = Micro<T>::m, n = Micro<T>::n, lanes = VectorOf<T>::lanes;
  Vector<T> sum[m][2] = {};
  for (; lines > 0; --lines, a += a_line) {
    const T* terms = a;
    for (std::int64_t p = 0; p < width; ++p, terms += a_step, b += n) add_term<T>(sum, terms, 1, b);
  }
  for (int i = 0; i < m && i < rows; ++i, c += c_stride) {
    store<T>(add ? sum[i][0] + load(c) : sum[i][0], c);
    store<T>(add ? sum[i][1] + load(c + lanes) : sum[i][1], c + lanes);
  }
}

/// A matrix whose element (i, j) is data[i·row + j·column]; it may be a transposed one.
template <class T>
struct Strided {
  const T* data;
  std::int64_t row, column;
};

template <class T>
Strided<T> strided(const MatrixOperand& operand) {
  const auto* data = static_cast<const T*>(operand.data);
  if (operand.transpose == Transpose::yes) return {data, 1, operand.stride};
  return {data, operand.stride, 1};
}

/// packed[j] = from[j·stride] for j < width; 0 from `count` on.
template <int width, class T>
KOKKOS_INLINE_FUNCTION void pack_line(const T* from, std::int64_t stride, std::int64_t count, T* packed) {
  if (count >= width && stride == 1) {
    for (int j = 0; j < width; ++j) packed[j] = from[j];
  } else if (count >= width) {
    for (int j = 0; j < width; ++j) packed[j] = from[j * stride];
  } else {
    for (int j = 0; j < width; ++j) packed[j] = j < count ? from[j * stride] : T(0);
  }
}

}  // namespace lockstep
