// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "ops/library_choices.hpp"

namespace lockstep {

/// Attention of several heads over sequences (Vaswani et al., "Attention is all you need", 2017); `causal` lets a
/// position look at itself and those before.
struct AttentionShape {
  std::int64_t n = 0;       ///< sequences
  std::int64_t length = 0;  ///< positions of each, T
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  bool causal = true;
  DType dtype = DType::f32;
  LibraryChoices choices;
  std::int64_t memory = 0;  ///< positions that are looked at, where those are others; never causal. 0: the same

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t width() const { return heads * head_size; }
  std::int64_t keys() const { return memory > 0 ? memory : length; }
  /// From a position's queries, or keys, to the next one's.
  std::int64_t query_row() const { return memory > 0 ? width() : 3 * width(); }
  std::int64_t key_row() const { return memory > 0 ? 2 * width() : 3 * width(); }
  /// Operations of the two products, multiply-adds counted as two; half of them where a position sees only the past.
  double flops() const {
    return (causal ? 2.0 : 4.0) * static_cast<double>(n) * static_cast<double>(length) * static_cast<double>(keys()) *
           static_cast<double>(width());
  }
};

/// softmax(q·kᵀ/√head_size)·v, planned for one shape (see InnerProduct). No T × T matrix is made: scores exist a block
/// at a time (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention",
/// 2022). Arithmetic is of master_dtype.
class ScaledDotProductAttention {
 public:
  virtual ~ScaledDotProductAttention() = default;

  /// This attention for another number of sequences. Null where the library declines.
  virtual std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// q [n, T, 3·width]: for each position queries, keys, values, each by head; `kv` is empty. With a memory q
  /// [n, T, width] are queries alone, kv [n, memory, 2·width] keys and values. y [n, T, width]; logsumexp [n, heads, T]
  /// of master_dtype is what the backward pass needs beside them.
  virtual void forward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                       const Tensor& logsumexp, const Tensor& workspace) = 0;
  /// dq and dkv, like q and kv, from dy; the probabilities are computed again, block by block. Every sum has one owner
  /// and one order.
  virtual void backward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& dy, const Tensor& dq, const Tensor& dkv,
                        const Tensor& workspace) = 0;
};

}  // namespace lockstep
