// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Radical inverse of `index` in base `digits.size()`, in [0, 1): each digit is replaced by another as `digits` says,
/// and all are mirrored at the point. digits[0] is 0, since an index has infinitely many leading zeros.
double radical_inverse(std::int64_t index, std::span<const int> digits);

/// A quasi-random sequence of points in [0, 1)^dimensions (Halton 1960): digits are permuted at random, the first 100
/// points left out, and each dimension is shifted at random, modulo 1. Shallue et al. 2019 search in this way, after
/// Bousquet et al., "Critical hyper-parameters: no random, no cry", 2017. A point depends only on seed, stream and its
/// number.
class HaltonSequence {
 public:
  /// `stream`: number of one of several independent sequences.
  HaltonSequence(std::size_t dimensions, std::uint64_t seed, std::uint64_t stream);

  /// Returns point number `i`, from 0 on.
  std::vector<double> point(std::int64_t i) const;

 private:
  struct Axis {
    std::vector<int> digits;  ///< what each digit is replaced by; their number is the axis's prime
    double shift;
  };
  std::vector<Axis> axes_;
};

}  // namespace lockstep
