// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/row_sums.hpp"

namespace lockstep {

/// e^x for x ≤ 0, a distance to the largest number, in the fewest instructions of a GPU; accurate to (2 + |x|) units in
/// the last place.
KOKKOS_INLINE_FUNCTION float exp_of_distance(float x) { return Kokkos::exp2(x * 1.44269504F); }
KOKKOS_INLINE_FUNCTION double exp_of_distance(double x) { return Kokkos::exp(x); }

/// The elements of a row that a lane or thread processes, four packs at a time.
template <class... Arrays>
using SoftmaxRow = RowPacks<4, Arrays...>;

/// The largest number z of a row and Σ exp(z − largest), over the elements added so far (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018).
template <class C>
struct OnlineSoftmax {
  static constexpr std::int32_t nowhere = Kokkos::Experimental::finite_max_v<std::int32_t>;
  C largest = Kokkos::Experimental::finite_min_v<C>, sum = 0;
  std::int32_t first = nowhere;  ///< index of the largest number; of equal ones, the first

  /// Adds the elements that an index of the row stands for.
  template <class Row>
  KOKKOS_INLINE_FUNCTION void add(const Row& row, std::int64_t index) {
    C best = Kokkos::Experimental::finite_min_v<C>;
    row.do_index([&](std::int64_t, const auto& number) { best = C(number) > best ? C(number) : best; }, index);
    if (best >= largest) {  // rarely true
      std::int32_t place = best > largest ? nowhere : first;
      row.do_index(
          [&](std::int64_t k, const auto& number) {
            if (C(number) == best && k < place) place = static_cast<std::int32_t>(k);
          },
          index);
      sum *= exp_of_distance(largest - best);
      largest = best;
      first = place;
    }
    row.do_index([&](std::int64_t, const auto& number) { sum += exp_of_distance(C(number) - largest); }, index);
  }

  /// Combines the results of all participants; reduce(reducer) must replace each participant's number by the reduction.
  template <class Reduce>
  KOKKOS_INLINE_FUNCTION void combine(const Reduce& reduce) {
    C best = largest;
    reduce(Kokkos::Max<C>(best));
    sum *= exp_of_distance(largest - best);
    reduce(Kokkos::Sum<C>(sum));
    if (largest < best) first = nowhere;
    reduce(Kokkos::Min<std::int32_t>(first));
    largest = best;
  }
};

/// The largest number and the sum of a row whose elements are divided among vector lanes. All lanes receive the result.
template <class T>
KOKKOS_INLINE_FUNCTION OnlineSoftmax<Compute<T>> online_softmax_of_row(const RowMember& team, std::int64_t c,
                                                                       const T* x) {
  const SoftmaxRow<Reads<T>> row(c, Reads<T>(x));
  OnlineSoftmax<Compute<T>> seen;
  for_columns(team, row.indices, [&](const std::int64_t index) { seen.add(row, index); });
  seen.combine([&](const auto& reducer) { reduce_lanes(team, reducer); });
  return seen;
}

}  // namespace lockstep
