// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"

// What every loss does with the numbers that its kernel has made of each row. Pointers are to the step's memory.
namespace lockstep {

/// Adds to `sums` (LossSums) loss and correct of n examples, each of which has these two in its first of `stride` rows
/// of per_row. On CPUs one thread adds them in their order, so that the result does not depend on the number of
/// threads.
void add_examples(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_row, double* sums);

/// The same of the mean over the rows of each example, which is left in the place of its first.
void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t rows, double* per_row, double* sums);

/// Adds to `sums` (LossSums) so many rows that all count alike.
void count_rows(const ExecSpace& space, std::int64_t rows, double* sums);

}  // namespace lockstep
