// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.hpp"
#include "nn/parameters/owned_value_store.hpp"
#include "nn/parameters/parameter_windows.hpp"

namespace lockstep {

/// What a rank keeps of what is trained: the values that it owns (ParameterLayout::owned), and the sums of their
/// gradients over micro-batches and ranks. Either lies in the flat buffer; or, where it is divided, in memory of its
/// own, one range after the other; or the values so in an OwnedValueStore.
class OwnedParameters {
 public:
  /// In the flat buffers.
  OwnedParameters(const Tensor& values, const Tensor& gradients) : values_(values), gradients_(gradients) {}
  /// Takes memory for those that are divided, but for values that are elsewhere. `layout`: says what is owned.
  void divide(const ParameterLayout& layout, const ParameterDivision& division);
  /// Values that are elsewhere are here from now on; it outlives this.
  void keep_values_in(OwnedValueStore& store) { store_ = &store; }
  /// Null: they are in memory.
  OwnedValueStore* store() const { return store_; }

  // Of part of a range that is owned; of gradients, also what is to be added to statistics.
  Tensor values(ParameterRange range) const { return at(values_, value_at(range.first), range.count); }
  Tensor gradients(ParameterRange range) const { return at(gradients_, gradient_at(range.first), range.count); }
  // For kernels: where an element of the flat buffer stands among all. Values that are elsewhere have no data.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t value_at(std::int64_t element) const { return has_own_values_ ? place(element) : element; }
  std::int64_t gradient_at(std::int64_t element) const { return has_own_gradients_ ? place(element) : element; }

 private:
  static Tensor at(const Tensor& all, std::int64_t first, std::int64_t count);
  std::int64_t place(std::int64_t element) const;

  Tensor values_, gradients_;
  Buffer value_memory_, gradient_memory_;
  bool has_own_values_ = false, has_own_gradients_ = false;  ///< places for what is owned alone
  OwnedValueStore* store_ = nullptr;
  std::vector<ParameterRange> ranges_;
  std::int64_t trained_ = 0;
};

}  // namespace lockstep
