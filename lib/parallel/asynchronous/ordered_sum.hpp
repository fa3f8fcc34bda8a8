// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <vector>

#include "comm/collective/shard_tree.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// The sum of a fixed number of flat tensors, f32 or f64, that come one after the other. They are, in this order, the
/// leaves of DeterministicReducer's tree.
class OrderedSum {
 public:
  /// A sum of `count` tensors of `size` elements.
  OrderedSum(std::int64_t count, DType dtype, std::int64_t size);

  /// Number of tensors that are allocated besides those that come.
  static std::int64_t buffers(std::int64_t count) { return ShardNode{0, count}.depth(); }

  /// Adds the next tensor, whose memory a partial sum takes. After the last tensor, the next one is the first of
  /// another sum.
  void add(const ExecSpace& space, const Tensor& numbers);
  /// The last complete sum, in the memory of its last summand; empty before there is one.
  const Tensor& sum() const { return sum_; }

 private:
  std::int64_t count_;
  std::vector<OwnedTensor> halves_;  ///< left halves of tree nodes
  std::int64_t place_ = 0;
  std::size_t waiting_ = 0;  ///< number of halves_ that wait for right ones
  Tensor sum_;
};

}  // namespace lockstep
