// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"

// What every loss does with the numbers that its kernel has made of each row: vectors of outputs, one an example, or one
// for each position of a sequence. Pointers are to the step's memory.
namespace lockstep {

/// Adds to `sums` (LossSums) loss and correct of n examples, each the mean over its positions. per_row: [n·positions, 2]
/// loss, correct; the first row of each example is overwritten. The order of additions depends on sizes alone.
void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t positions, double* per_row, double* sums);

/// Adds to `sums` (LossSums) the weight of so many rows that all count alike: 1 each.
void count_rows(const ExecSpace& space, std::int64_t rows, double* sums);

}  // namespace lockstep
