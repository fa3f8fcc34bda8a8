// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>

#include "core/tensor.hpp"

namespace lockstep {

/// A product planned for the batch sizes that have occurred: the full one, its parts, and the last of
/// an epoch. All share one weight.
template <class Product>
class PlanCache {
 public:
  /// The product for n, made by make(n) the first time.
  template <class Make>
  Product& prepare(std::int64_t n, Make make) {
    auto& product = by_size_[n];
    if (!product) product = by_size_.size() == 1 ? make(n) : other_than(n).resized(n);
    return *product;
  }
  Product& at(std::int64_t n) const { return *by_size_.at(n); }
  void set_weight(const Tensor& weight) { by_size_.begin()->second->set_weight(weight); }

 private:
  const Product& other_than(std::int64_t n) const {
    const auto first = by_size_.begin();
    return first->first == n ? *std::next(first)->second : *first->second;
  }

  std::map<std::int64_t, std::unique_ptr<Product>> by_size_;
};

}  // namespace lockstep
