// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.hpp"
#include "nn/parameters/owned_value_store.hpp"
#include "nn/parameters/unshard_plan.hpp"

namespace lockstep {

/// The trained parameters that a rank owns (ParameterLayout::owned): their values, and their gradients summed over
/// micro-batches and ranks. Each of the two lies in the flat buffer or, if it is divided among ranks, in memory of its
/// own, one range after the other. Values can also be kept in an OwnedValueStore.
class ParameterShard {
 public:
  /// Values and gradients that lie in the flat buffers.
  ParameterShard(const Tensor& values, const Tensor& gradients) : values_(values), gradients_(gradients) {}
  /// Allocates memory for what `division` divides, except for values that are kept elsewhere. `layout` says what is
  /// owned.
  void divide(const ParameterLayout& layout, const ParameterDivision& division);
  /// From now on the values are kept in `store`, which must outlive this object.
  void keep_values_in(OwnedValueStore& store) { store_ = &store; }
  /// Null if the values are in memory.
  OwnedValueStore* store() const { return store_; }

  // Values and gradients of a range, which lies within an owned range. For gradients, it may also be part of the
  // statistics' increments.
  Tensor values(ElementRange range) const { return at(values_, value_at(range.first), range.count); }
  Tensor gradients(ElementRange range) const { return at(gradients_, gradient_at(range.first), range.count); }
  // For kernels: all values and all gradients, and the position in them of an element of the flat buffer. Values that
  // are kept elsewhere have no data.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t value_at(std::int64_t element) const { return has_own_values_ ? place(element) : element; }
  std::int64_t gradient_at(std::int64_t element) const { return has_own_gradients_ ? place(element) : element; }

 private:
  static Tensor at(const Tensor& all, std::int64_t first, std::int64_t count);
  std::int64_t place(std::int64_t element) const;

  Tensor values_, gradients_;
  Buffer value_memory_, gradient_memory_;
  bool has_own_values_ = false, has_own_gradients_ = false;  ///< true if the memory holds owned elements only
  OwnedValueStore* store_ = nullptr;
  std::vector<ElementRange> ranges_;
  std::int64_t trained_ = 0;
};

}  // namespace lockstep
