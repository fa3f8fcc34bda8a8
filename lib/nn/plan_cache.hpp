// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>
#include <utility>

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
    const auto found = by_size_.find(n);
    if (found != by_size_.end()) return *found->second;
    auto made = by_size_.empty() ? make(n) : by_size_.begin()->second->resized(n);
    return *by_size_.emplace(n, std::move(made)).first->second;
  }
  Product& at(std::int64_t n) const { return *by_size_.at(n); }
  void set_weight(const Tensor& weight) { by_size_.begin()->second->set_weight(weight); }

 private:
  std::map<std::int64_t, std::unique_ptr<Product>> by_size_;
};

}  // namespace lockstep
