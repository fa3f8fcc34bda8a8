// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/ordered_sum.hpp"

#include <array>

#include "ops/elementwise.hpp"

namespace lockstep {

OrderedSum::OrderedSum(std::int64_t count, DType dtype, std::int64_t size) : count_(count) {
  for (std::int64_t i = 0; i < buffers(count); ++i)
    halves_.emplace_back("lockstep::ordered_sum::half", dtype, Shape{size});
}

void OrderedSum::add(const ExecSpace& space, const Tensor& numbers) {
  std::array<ShardNode, 64> path{ShardNode{0, count_}};
  std::size_t length = 1;
  for (; !path[length - 1].is_shard(); ++length) {
    const ShardNode node = path[length - 1];
    path[length] = place_ < node.mid() ? node.left() : node.right();
  }
  for (; length > 1 && path[length - 1].lo > path[length - 2].lo; --length)
    accumulate(space, halves_[--waiting_].get(), numbers);
  if (length > 1) copy(space, numbers, halves_[waiting_++].get());
  else sum_ = numbers;
  place_ = (place_ + 1) % count_;
}

}  // namespace lockstep
