// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "ops/library_choices.hpp"

namespace lockstep {

/// Multi-head attention over sequences (Vaswani et al., "Attention is all you need", 2017). With `causal`, a position
/// attends only to itself and to earlier positions.
struct AttentionShape {
  std::int64_t n = 0;       ///< number of sequences
  std::int64_t length = 0;  ///< positions in each sequence, T
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  bool causal = true;
  DType dtype = DType::f32;
  LibraryChoices choices;
  /// Positions in the memory, if queries attend to another sequence; it is then never causal. 0: to their own sequence.
  std::int64_t memory = 0;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t width() const { return heads * head_size; }
  std::int64_t keys() const { return memory > 0 ? memory : length; }
  /// Elements between the queries, or the keys, of neighbouring positions.
  std::int64_t query_row() const { return memory > 0 ? width() : 3 * width(); }
  std::int64_t key_row() const { return memory > 0 ? 2 * width() : 3 * width(); }
  /// Floating-point operations of the two products, multiply-adds counted as two; half as many with `causal`.
  double flops() const {
    return (causal ? 2.0 : 4.0) * static_cast<double>(n) * static_cast<double>(length) * static_cast<double>(keys()) *
           static_cast<double>(width());
  }
};

/// softmax(q·kᵀ/√head_size)·v, planned for one shape (see InnerProduct). The T × T matrix of scores is never stored;
/// scores exist for one block at a time (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
/// et al., "FlashAttention", 2022). Arithmetic is in master_dtype.
class ScaledDotProductAttention {
 public:
  virtual ~ScaledDotProductAttention() = default;

  /// This attention for another number of sequences. Null if the library declines.
  virtual std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// Without a memory, q [n, T, 3·width] holds queries, keys and values of each position, each by head, and `kv` is
  /// empty. With a memory, q [n, T, width] holds queries only, and kv [n, memory, 2·width] keys and values. y [n, T,
  /// width]; logsumexp [n, heads, T] of master_dtype is kept for the backward pass.
  virtual void forward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                       const Tensor& logsumexp, const Tensor& workspace) = 0;
  /// Computes dq and dkv, in the layout of q and kv, from dy. Probabilities are recomputed block by block. Every sum is
  /// computed by one thread or team in a fixed order.
  virtual void backward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& dy, const Tensor& dq, const Tensor& dkv,
                        const Tensor& workspace) = 0;
};

}  // namespace lockstep
