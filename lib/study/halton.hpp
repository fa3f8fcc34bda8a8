// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// The digits of `index` in base `digits.size()`, each exchanged for another, mirrored after the point: in [0, 1).
/// digits[0] is 0, or there would be no end of them.
double radical_inverse(std::int64_t index, std::span<const int> digits);

/// A quasi-random sequence of points in [0, 1)^dimensions (Halton 1960), with digits permuted at random, its first
/// 100 points left out, and each dimension shifted at random, modulo 1, as Shallue et al. 2019 search by Bousquet et
/// al., "Critical hyper-parameters: no random, no cry", 2017. A point depends on seed, stream and its number alone.
class HaltonSequence {
 public:
  /// `stream`: of several independent sequences.
  HaltonSequence(std::size_t dimensions, std::uint64_t seed, std::uint64_t stream);

  /// Number `i` from 0 on.
  std::vector<double> point(std::int64_t i) const;

 private:
  struct Axis {
    std::vector<int> digits;  ///< what each stands for; as many as the axis's prime number
    double shift;
  };
  std::vector<Axis> axes_;
};

}  // namespace lockstep
