// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

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

}  // namespace lockstep
