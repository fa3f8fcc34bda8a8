// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/element_range.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// Computes Σ x², accumulated in f64 in an order that does not depend on the number of threads, into `result` (f64 [1]
/// in device memory). `scratch`: f64 [sum_of_squares_scratch(x.count())].
void sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch, const Tensor& result);
/// Returns Σ x² to the host; waits for the device.
double sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch);
std::int64_t sum_of_squares_scratch(std::int64_t count);

// The two halves of sum_of_squares, for numbers that are spread over ranks: a rank that holds whole blocks
// (array_block) has complete partial sums of the total.
/// `sums`: f64, at least one element for each block of x.
void block_sums_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& sums);
/// `sums`: f64 [blocks], `result`: f64 [1].
void add_block_sums(const ExecSpace& space, const Tensor& sums, const Tensor& result);

/// Counts the elements of x that are infinite or NaN into `result` (f64 [1] in device memory).
void count_nonfinite(const ExecSpace& space, const Tensor& x, const Tensor& result);

/// Sets flags (i32 [n]) to 1 for each example of `inputs` ([n, …], any floating-point type) with a number that is not
/// finite or that names no row of its table, and to 0 for the others. tables (i64, one entry for each number of an
/// example): rows of the table that the number indexes, 0 if it indexes none; an empty tensor if no number does.
void flag_nonfinite_examples(const ExecSpace& space, const Tensor& inputs, const Tensor& tables, const Tensor& flags);

/// Fills the rows of flagged examples with NaN. outputs [rows, …] are rows `first` … of a batch's outputs, of which
/// each example has `rows_each`.
void spoil_flagged_examples(const ExecSpace& space, const Tensor& flags, std::int64_t first, std::int64_t rows_each,
                            const Tensor& outputs);

}  // namespace lockstep
