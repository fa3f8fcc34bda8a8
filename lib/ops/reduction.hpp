// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/array_block.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// Σ x², accumulated in f64, in an order that does not depend on the number of threads; stays in the
/// step's memory as `result` (f64 [1]). `scratch`: f64 [sum_of_squares_scratch(x.count())].
void sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch, const Tensor& result);
/// The sum of squares for the host; waits for the device.
double sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch);
std::int64_t sum_of_squares_scratch(std::int64_t count);

// The two parts of it, for numbers that lie on several ranks: who holds whole blocks (array_block) has the partial
// sums of all that the whole sum is made of.
/// `sums`: f64 [at least one a block of x].
void block_sums_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& sums);
/// `sums`: f64 [blocks], `result`: f64 [1].
void add_block_sums(const ExecSpace& space, const Tensor& sums, const Tensor& result);

/// How many numbers of x are infinite or NaN, as `result` (f64 [1]) in the step's memory.
void count_nonfinite(const ExecSpace& space, const Tensor& x, const Tensor& result);

}  // namespace lockstep
