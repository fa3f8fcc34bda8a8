// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include "ops/row_parts.hpp"

namespace lockstep {

void add_examples(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_row, double* sums) {
  for_sums_of_parts(
      space, "lockstep::loss::sum", 2, KOKKOS_LAMBDA(const PartSums& examples, const std::int64_t column) {
        const double sum = examples.sum(n, sums[column],
                                        [&](const std::int64_t i) { return per_row[2 * i * stride + column]; });
        examples.once([&] { sums[column] = sum; });
      });
}

void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t rows, double* per_row, double* sums) {
  if (rows > 1)
    for_sums_of_parts(
        space, "lockstep::loss::rows", 2 * n, KOKKOS_LAMBDA(const PartSums& of_rows, const std::int64_t index) {
          double* const first = per_row + index / 2 * 2 * rows + index % 2;
          const double sum = of_rows.sum(rows, 0.0, [&](const std::int64_t row) { return first[2 * row]; });
          of_rows.once([&] { first[0] = sum / static_cast<double>(rows); });
        });
  add_examples(space, n, rows, per_row, sums);
}

void count_rows(const ExecSpace& space, std::int64_t rows, double* sums) {
  Kokkos::parallel_for(
      "lockstep::loss::count", RangePolicy(space, 2, 4),
      KOKKOS_LAMBDA(const std::int64_t column) { sums[column] += static_cast<double>(rows); });
}

}  // namespace lockstep
