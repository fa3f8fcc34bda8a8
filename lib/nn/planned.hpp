// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>

namespace lockstep {

/// Operations planned for the batch sizes that have occurred: the full one, and the last of an epoch.
template <class Operation>
class Planned {
 public:
  /// The operation for n, made by make(n) the first time.
  template <class Make>
  Operation& prepare(std::int64_t n, Make make) {
    auto& operation = by_size_[n];
    if (!operation) operation = make(n);
    return *operation;
  }
  Operation& at(std::int64_t n) const { return *by_size_.at(n); }

 private:
  std::map<std::int64_t, std::unique_ptr<Operation>> by_size_;
};

}  // namespace lockstep
