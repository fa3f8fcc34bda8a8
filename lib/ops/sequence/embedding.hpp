// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// Stands for a token that has no row.
inline constexpr std::int32_t no_row = -1;

/// y = the rows of `weight` that the tokens select; NaN for no_row. tokens: i32 [n, T], each no_row or in [0,
/// vocabulary); weight [vocabulary, features] of y's master_dtype; y [n, T, features].
void embedding_forward(const ExecSpace& space, const Tensor& tokens, const Tensor& weight, const Tensor& y);
/// dweight[v] (+)= the sum of dy over the positions of token v, in order. Beyond 256 positions, sums of 256 are added
/// up. The result does not depend on the number of threads. Positions of no_row add nothing.
void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store, const Tensor& workspace);
/// Workspace bytes of embedding_backward for this many tokens, alignment included; dtype is that of dy.
std::size_t embedding_workspace_bytes(DType dtype, std::int64_t tokens, std::int64_t vocabulary, std::int64_t features);

/// Finds rows in tables that are stacked in one. x [n, tables], of any floating-point type, holds row numbers, which
/// are rounded to integers; first i64 [tables + 1] holds the first row of each table and the number of all rows.
/// rows[i, k], i32 [n, tables], becomes the stacked row of row x[i, k] of table k, or no_row if table k does not have
/// it.
void find_table_rows(const ExecSpace& space, const Tensor& x, const Tensor& first, const Tensor& rows);

/// y = x + weight[t] for every position t: x, y [n, T, features]; weight [length ≥ T, features] of master_dtype.
void position_forward(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& y);
/// dweight[t] (+)= the sum of dy[·, t] over examples, in order; 0 for t ≥ T.
void position_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dweight, Store store);

// Positions encoded by sinusoids: pair i of w features has the angle t·base^(−2i/w) at position t.

/// table [T, w]: the position encoding of Vaswani et al., "Attention is all you need", 2017. Sine and cosine of pair i
/// are side by side; base is 10000; for an odd w the last feature is a sine.
void position_waves(const ExecSpace& space, const Tensor& table);

/// table [T, w], w even, for `rotate`: the cosines of all pairs, then their sines.
void rotary_waves(const ExecSpace& space, double base, const Tensor& table);

enum class Rotation { forward, inverse };

/// Rotary positions (Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021), in place:
/// rotates queries and keys, but not values, of qkv [n, T, 3·heads·w] by the angles of their positions. Pairs are
/// features i and i + w/2 of a head, as in GPT-NeoX and LLaMA. table: [T, w] of qkv's master_dtype. `inverse` rotates
/// back, as gradients need it.
void rotate(const ExecSpace& space, Rotation rotation, std::int64_t heads, const Tensor& table, const Tensor& qkv);

/// The dot interaction of Naumov et al., "Deep learning recommendation model for personalization and recommendation
/// systems", 2019. An example has k + 1 vectors: z0 = first [n, d], z1 … zk = others [n, k, d]. y [n, d + k(k + 1)/2]
/// is z0 followed by z1·z0, z2·z0, z2·z1, z3·z0, …
void dot_interaction_forward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& y);
/// dfirst or dothers may be empty.
void dot_interaction_backward(const ExecSpace& space, const Tensor& first, const Tensor& others, const Tensor& dy,
                              const Tensor& dfirst, const Tensor& dothers);

}  // namespace lockstep
