// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// y = the rows of `weight` that the tokens name. tokens i32 [n, T], each in [0, vocabulary); weight
/// [vocabulary, features] of y's master_dtype, y [n, T, features].
void embedding_forward(const ExecSpace& space, const Tensor& tokens, const Tensor& weight, const Tensor& y);
/// dweight[v] (+)= the sum of dy over the places of token v, in their order: the same for any number of threads.
void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store);

/// y = x + weight[t] for every position t: x, y [n, T, features]; weight [length ≥ T, features] of master_dtype.
void position_forward(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& y);
/// dweight[t] (+)= the sum of dy[·, t] over examples, in their order; zeros for t ≥ T.
void position_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dweight, Store store);

}  // namespace lockstep
