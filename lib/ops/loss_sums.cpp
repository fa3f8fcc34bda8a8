// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss_sums.hpp"

namespace lockstep {
namespace {

/// The mean over the positions of each example, in the place of its first.
void average_positions(const ExecSpace& space, std::int64_t n, std::int64_t positions, double* per_row) {
  Kokkos::parallel_for(
      "lockstep::loss::positions", RangePolicy(space, 0, n), KOKKOS_LAMBDA(const std::int64_t i) {
        double* const row = per_row + 2 * i * positions;
        double loss = 0, correct = 0;
        for (std::int64_t t = 0; t < positions; ++t) {
          loss += row[2 * t];
          correct += row[2 * t + 1];
        }
        row[0] = loss / static_cast<double>(positions);
        row[1] = correct / static_cast<double>(positions);
      });
}

/// Examples are summed in their order by one thread: n is small, and the result does not depend on
/// the number of threads. Example i stands in row i · stride.
void add_up(const ExecSpace& space, std::int64_t n, std::int64_t stride, const double* per_example, double* sums) {
  Kokkos::parallel_for(
      "lockstep::loss::sum", RangePolicy(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t column) {
        double sum = sums[column];
        for (std::int64_t i = 0; i < n; ++i) sum += per_example[2 * i * stride + column];
        sums[column] = sum;
      });
}

}  // namespace

void add_rows(const ExecSpace& space, std::int64_t n, std::int64_t positions, double* per_row, double* sums) {
  if (positions > 1) average_positions(space, n, positions, per_row);
  add_up(space, n, positions, per_row, sums);
}

void count_rows(const ExecSpace& space, std::int64_t rows, double* sums) {
  Kokkos::parallel_for(
      "lockstep::loss::count", RangePolicy(space, 2, 3),
      KOKKOS_LAMBDA(const std::int64_t column) { sums[column] += static_cast<double>(rows); });
}

}  // namespace lockstep
