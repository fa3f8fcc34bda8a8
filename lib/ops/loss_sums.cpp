// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss_sums.hpp"

namespace lockstep {

void add_examples(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_row, double* sums) {
  Kokkos::parallel_for(
      "lockstep::loss::sum", RangePolicy(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t column) {
        double sum = sums[column];
        for (std::int64_t i = 0; i < n; ++i) sum += per_row[2 * i * stride + column];
        sums[column] = sum;
      });
}

void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t rows, double* per_row, double* sums) {
  if (rows > 1)
    Kokkos::parallel_for(
        "lockstep::loss::rows", RangePolicy(space, 0, n), KOKKOS_LAMBDA(const std::int64_t i) {
          double* const first = per_row + 2 * i * rows;
          double loss = 0, correct = 0;
          for (std::int64_t row = 0; row < rows; ++row) {
            loss += first[2 * row];
            correct += first[2 * row + 1];
          }
          first[0] = loss / static_cast<double>(rows);
          first[1] = correct / static_cast<double>(rows);
        });
  add_examples(space, n, rows, per_row, sums);
}

void count_rows(const ExecSpace& space, std::int64_t rows, double* sums) {
  Kokkos::parallel_for(
      "lockstep::loss::count", RangePolicy(space, 2, 4),
      KOKKOS_LAMBDA(const std::int64_t column) { sums[column] += static_cast<double>(rows); });
}

}  // namespace lockstep
