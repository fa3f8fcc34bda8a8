// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"

// How every loss adds up the numbers that its kernel computes for each row. Pointers are to device memory.
namespace lockstep {

/// Adds loss and correct of n examples to `sums` (LossSums). Each example has them in the first of its `stride` rows of
/// per_row. On CPUs one thread adds them in order, so that the result does not depend on the number of threads.
void add_examples(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_row, double* sums);

/// Averages loss and correct over the rows of each example, and adds them as add_examples does. Leaves the mean in the
/// example's first row.
void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t rows, double* per_row, double* sums);

/// Adds this many rows to `sums` (LossSums); all have weight 1.
void count_rows(const ExecSpace& space, std::int64_t rows, double* sums);

}  // namespace lockstep
