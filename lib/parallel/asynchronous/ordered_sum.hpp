// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/collective/shard_tree.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// The sum of a fixed number of flat tensors, of f32 or f64, that come one after the other: in the tree of
/// DeterministicReducer, whose leaves they are in their order.
class OrderedSum {
 public:
  /// `count`: how many; `size`: elements of each.
  OrderedSum(std::int64_t count, DType dtype, std::int64_t size);

  /// Tensors beside those that come.
  static std::int64_t buffers(std::int64_t count) { return ShardNode{0, count}.depth(); }

  /// The next one, whose place a sum takes. After the last one, the next is the first of another sum.
  void add(const ExecSpace& space, const Tensor& numbers);
  /// The last complete one, in the place of its last summand; empty before there is any.
  const Tensor& sum() const { return sum_; }

 private:
  std::int64_t count_;
  std::vector<OwnedTensor> halves_;  ///< left ones
  std::int64_t place_ = 0;
  std::size_t waiting_ = 0;  ///< of halves_
  Tensor sum_;
};

}  // namespace lockstep
