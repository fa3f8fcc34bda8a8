// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "core/memory_plan.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// A product planned for each batch size that has occurred: the full batch, its parts, and the last batch of an epoch.
/// All of them share one weight.
template <class Product>
class PlanCache {
 public:
  /// Returns the product for size n. It is made by make(n) if it is the first one, or if the first one's library cannot
  /// resize to n.
  template <class Make>
  Product& prepare(std::int64_t n, Make make) {
    const auto found = by_size_.find(n);
    if (found != by_size_.end()) return *found->second;
    std::unique_ptr<Product> made = first_ ? first_->resized(n) : nullptr;
    if (!made) made = make(n);
    Product& product = *by_size_.emplace(n, std::move(made)).first->second;
    if (!first_) first_ = &product;
    if constexpr (requires { product.set_weight(weight_); })
      if (weight_) product.set_weight(weight_);
    return product;
  }
  Product& at(std::int64_t n) const { return *by_size_.at(n); }
  void set_weight(const Tensor& weight) {
    weight_ = weight;
    for (const auto& [n, product] : by_size_) product->set_weight(weight);
  }

 private:
  std::map<std::int64_t, std::unique_ptr<Product>> by_size_;
  Product* first_ = nullptr;
  Tensor weight_;
};

/// Divides a piece of memory into consecutive tensors, each at a multiple of memory_alignment. Without memory, it only
/// counts how much is needed.
class ScratchAllocator {
 public:
  ScratchAllocator() = default;
  explicit ScratchAllocator(const Tensor& memory)
      : data_(static_cast<std::byte*>(memory.data)), size_(memory.bytes()) {}

  Tensor take(DType dtype, const Shape& shape) {
    const Tensor tensor{data_ == nullptr ? nullptr : data_ + used_, dtype, shape};
    used_ = align_up(used_ + tensor.bytes());
    return tensor;
  }
  /// Returns all memory that is not taken yet.
  Tensor rest() const {
    return {data_ == nullptr ? nullptr : data_ + used_,
            DType::u8,
            {static_cast<std::int64_t>(size_ > used_ ? size_ - used_ : 0)}};
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0, used_ = 0;
};

}  // namespace lockstep
