// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>
#include <utility>

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

}  // namespace lockstep
