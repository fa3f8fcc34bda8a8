// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// Sets flags (i32 [n]) to 1 for each example of `inputs` ([n, …], any floating-point type) with a number that is not
/// finite or that names no row of its table, and to 0 for the others. tables (i64, one entry for each number of an
/// example): rows of the table that the number indexes, 0 if it indexes none; an empty tensor if no number does.
void flag_nonfinite_examples(const ExecSpace& space, const Tensor& inputs, const Tensor& tables, const Tensor& flags);

/// Fills the rows of flagged examples with NaN. outputs [rows, …] are rows `first` … of a batch's outputs, of which
/// each example has `rows_each`.
void spoil_flagged_examples(const ExecSpace& space, const Tensor& flags, std::int64_t first, std::int64_t rows_each,
                            const Tensor& outputs);

}  // namespace lockstep
