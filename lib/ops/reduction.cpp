// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/reduction.hpp"

namespace lockstep {
namespace {

/// Blocks of this many elements are summed independently, their sums one after another.
constexpr std::int64_t block = 16384;
/// Sums kept side by side in a block, so that additions need not wait for each other.
constexpr int lanes = 16;

std::int64_t blocks_in(std::int64_t count) { return (count + block - 1) / block; }

template <class T>
void block_sums(const ExecSpace& space, std::int64_t count, const T* x, double* sums) {
  using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("lockstep::sum_of_squares::block", Range(space, 0, blocks_in(count)),
                       KOKKOS_LAMBDA(const std::int64_t b) {
                         const std::int64_t end = (b + 1) * block < count ? (b + 1) * block : count;
                         double lane[lanes] = {};
                         std::int64_t i = b * block;
                         for (; i + lanes <= end; i += lanes)
                           for (int l = 0; l < lanes; ++l)
                             lane[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
                         for (; i < end; ++i) lane[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
                         double sum = 0;
                         for (int l = 0; l < lanes; ++l) sum += lane[l];
                         sums[b] = sum;
                       });
}

void add_up(const ExecSpace& space, std::int64_t blocks, double* sums) {
  using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("lockstep::sum_of_squares::total", Range(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
    double total = 0;
    for (std::int64_t b = 0; b < blocks; ++b) total += sums[b];
    sums[0] = total;
  });
}

}  // namespace

std::int64_t sum_of_squares_scratch(std::int64_t count) { return blocks_in(count) > 0 ? blocks_in(count) : 1; }

double sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch) {
  dispatch_master(x.dtype, [&]<class T>(T) { block_sums<T>(space, x.count(), x.as<T>(), scratch.as<double>()); });
  add_up(space, blocks_in(x.count()), scratch.as<double>());
  double total = 0;
  copy_to_host(space, {scratch.data, DType::f64, {1}}, &total);
  return total;
}

}  // namespace lockstep
