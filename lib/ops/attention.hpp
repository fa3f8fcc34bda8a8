// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// Attention of several heads over sequences (Vaswani et al., "Attention is all you need", 2017):
/// softmax(q·kᵀ/√head_size)·v for each head, where `causal` lets a position look at itself and those before.
struct AttentionShape {
  std::int64_t n = 0;       ///< sequences
  std::int64_t length = 0;  ///< positions of each, T
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  bool causal = true;
  DType dtype = DType::f32;

  std::int64_t width() const { return heads * head_size; }
  /// Operations of the two products, multiply-adds counted as two; half of them where a position sees only the past.
  double flops() const {
    return (causal ? 2.0 : 4.0) * static_cast<double>(n) * static_cast<double>(length) * static_cast<double>(length) *
           static_cast<double>(width());
  }
};

/// qkv [n, T, 3·width]: for each position queries, keys, values, each by head; y [n, T, width]; logsumexp
/// [n, heads, T] of master_dtype is what the backward pass needs beside them. No T × T matrix is made: scores
/// exist a block at a time (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et
/// al., "FlashAttention", 2022). Arithmetic is of master_dtype.
void attention_forward(const ExecSpace& space, const AttentionShape& shape, const Tensor& qkv, const Tensor& y,
                       const Tensor& logsumexp, const Tensor& workspace);

/// dqkv from dy; the probabilities are computed again, block by block. Every sum has one owner and one order.
void attention_backward(const ExecSpace& space, const AttentionShape& shape, const Tensor& qkv, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& dy, const Tensor& dqkv, const Tensor& workspace);

/// Bytes that these need in `workspace`.
std::size_t attention_workspace_bytes(const AttentionShape& shape);

}  // namespace lockstep
