// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/memory_plan.hpp"
#include "core/tensor.hpp"

namespace lockstep {

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
