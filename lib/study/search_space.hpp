// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The scale on which a deck's key is searched.
class Dimension {
 public:
  void describe(Fields& fields);

  /// Returns the value at a place in [0, 1), as text for a deck. `budget`: steps of the trial, of which a value with
  /// `of_budget` is a share.
  std::string value_at(double place, std::int64_t budget) const;
  /// Whether a place lies in the first or last twentieth of the scale. Values without an order have no border.
  bool is_at_border(double place) const;

 private:
  double number_at(double place) const;

  // Texts, so that those that are not given leave no trace in the resolved study.
  std::vector<std::string> linear_, log_, reverse_log_, integer_, discrete_;
  bool of_budget_ = false;
};

/// The keys that are searched and their scales, in the study's order.
struct SearchSpace {
  std::vector<std::string> keys;
  std::vector<Dimension> dimensions;

  void describe(Fields& fields, std::string_view key);
};

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
