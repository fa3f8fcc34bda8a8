// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

namespace lockstep {

/// Returns the inner product of two vectors, added in an order that depends on their length alone.
template <class T>
T inner_product(const T* a, const T* b, std::int64_t count) {
  constexpr int lanes = 16;  // sums that vector instructions may add side by side
  T sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  T sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const T lane : sums) sum += lane;
  return sum;
}

/// Makes `count` vectors of `length`, one after the other, orthonormal by the modified Gram–Schmidt process, twice for
/// each vector (Giraud, Langou and Rozložník 2005: twice makes them so up to rounding). A vector of which nothing but
/// rounding is left becomes 0, and `lost` is called with its number.
template <class T>
void make_orthonormal(T* vectors, std::int64_t count, std::int64_t length,
                      const std::function<void(std::int64_t)>& lost) {
  for (std::int64_t k = 0; k < count; ++k) {
    T* const vector = vectors + k * length;
    const auto norm = [&] { return std::sqrt(inner_product(vector, vector, length)); };
    const T before = norm();
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t other = 0; other < k; ++other) {
        const T* const unit = vectors + other * length;
        const T part = inner_product(vector, unit, length);
        for (std::int64_t i = 0; i < length; ++i) vector[i] -= part * unit[i];
      }
    const T size = norm();
    // (False for a NaN, which shows in the result.)
    if (size <= before * 8 * std::numeric_limits<T>::epsilon()) {
      std::fill(vector, vector + length, T(0));
      lost(k);
    } else {
      for (std::int64_t i = 0; i < length; ++i) vector[i] /= size;
    }
  }
}

}  // namespace lockstep
