// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.hpp"

namespace lockstep {

/// Extents of a row-major tensor, outermost first; at most six dimensions.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) {
    validate(extents.size() <= max_rank, ExitStatus::bad_data,
             "a shape of {} dimensions (the maximum is {}); use fewer", extents.size(), max_rank);
    for (const auto extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  int rank() const { return rank_; }
  /// Extent of a dimension; negative ones count from the last.
  std::int64_t operator[](int dimension) const {
    if (dimension < 0) dimension += rank_;
    assert(dimension >= 0 && dimension < rank_);
    return extents_[static_cast<std::size_t>(dimension)];
  }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (const auto extent : extents()) product *= extent;
    return product;
  }
  /// Number of vectors along the last dimension: T of [T, K], H·W of [H, W, K].
  std::int64_t rows() const {
    std::int64_t product = 1;
    for (int dimension = 0; dimension + 1 < rank_; ++dimension) product *= (*this)[dimension];
    return product;
  }
  std::span<const std::int64_t> extents() const { return {extents_.data(), static_cast<std::size_t>(rank_)}; }

  /// [N, this…]: the shape of n examples of this shape.
  Shape with_batch(std::int64_t n) const {
    Shape batched({n});
    for (const auto extent : extents()) batched.extents_[static_cast<std::size_t>(batched.rank_++)] = extent;
    return batched;
  }
  /// The shape of one example of [N, …].
  Shape of_example() const { return Shape(extents().subspan(1)); }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// "28×28×1".
inline std::string to_string(const Shape& shape) {
  std::string text;
  for (const auto extent : shape.extents()) {
    if (!text.empty()) text += "×";
    text += std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

}  // namespace lockstep
