// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// A token that has no row.
inline constexpr std::int32_t no_row = -1;

/// y = the rows of `weight` that the tokens name; NaN where a token is no_row. tokens i32 [n, T], others in
/// [0, vocabulary); weight [vocabulary, features] of y's master_dtype, y [n, T, features].
void embedding_forward(const ExecSpace& space, const Tensor& tokens, const Tensor& weight, const Tensor& y);
/// dweight[v] (+)= the sum of dy over the places of token v, in their order (of more than 256 places the sum of the
/// sums of 256): the same for any number of threads. Places of no_row add nothing.
void embedding_backward(const ExecSpace& space, const Tensor& tokens, const Tensor& dy, const Tensor& dweight,
                        Store store, const Tensor& workspace);
/// Bytes that it needs for so many tokens, aligned for any number; dtype of dy.
std::size_t embedding_workspace_bytes(DType dtype, std::int64_t tokens, std::int64_t vocabulary, std::int64_t features);

/// Tables below each other in one: rows[i, k] = the row of it that row x[i, k] of table k is, where x holds row numbers
/// (to the nearest whole one); no_row where that is none of table k's. x [n, tables] of any floating-point type, first
/// i64 [tables + 1]: where each table begins, and the last ends; rows i32 [n, tables].
void find_table_rows(const ExecSpace& space, const Tensor& x, const Tensor& first, const Tensor& rows);

/// y = x + weight[t] for every position t: x, y [n, T, features]; weight [length ≥ T, features] of master_dtype.
void position_forward(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& y);
/// dweight[t] (+)= the sum of dy[·, t] over examples, in their order; zeros for t ≥ T.
void position_backward(const ExecSpace& space, const Tensor& dy, const Tensor& dweight, Store store);

}  // namespace lockstep
