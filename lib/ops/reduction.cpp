// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/reduction.hpp"

#include "core/dtype.hpp"
#include "ops/row_parts.hpp"

namespace lockstep {
namespace {

/// Elements that are summed independently; the blocks' sums are added one after the other.
constexpr std::int64_t block = array_block;
/// Number of independent partial sums in a block, so that additions can overlap.
constexpr int lanes = 16;

template <class T>
void block_sums(const ExecSpace& space, std::int64_t count, const T* x, double* sums) {
  Kokkos::parallel_for(
      "lockstep::sum_of_squares::block", RangePolicy(space, 0, array_blocks(count)),
      KOKKOS_LAMBDA(const std::int64_t b) {
        const std::int64_t end = (b + 1) * block < count ? (b + 1) * block : count;
        double lane[lanes] = {};
        std::int64_t i = b * block;
        for (; i + lanes <= end; i += lanes)
          for (int l = 0; l < lanes; ++l) lane[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
        for (; i < end; ++i) lane[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        double sum = 0;
        for (int l = 0; l < lanes; ++l) sum += lane[l];
        sums[b] = sum;
      });
}

void add_up(const ExecSpace& space, std::int64_t blocks, const double* sums, double* result) {
  for_sums_of_parts(
      space, "lockstep::sum_of_squares::total", 1, KOKKOS_LAMBDA(const PartSums& of_blocks, const std::int64_t) {
        const double total = of_blocks.sum(blocks, 0.0, [&](const std::int64_t b) { return sums[b]; });
        of_blocks.once([&] { result[0] = total; });
      });
}

/// Elements for each index of a counting kernel: many on hosts, where the loop over them vectorizes; one on devices,
/// where neighbouring threads then read neighbouring elements.
constexpr std::int64_t counted_at_once = thread_per_element ? 1 : block;

template <class T>
void count_nonfinite(const ExecSpace& space, std::int64_t count, const T* x, double* result) {
  const std::int64_t groups = (count + counted_at_once - 1) / counted_at_once;
  const Kokkos::View<double, MemorySpace, Kokkos::MemoryUnmanaged> total(result);
  // Counts are integers below 2⁵³, so their sum does not depend on the order.
  Kokkos::parallel_reduce(
      "lockstep::count_nonfinite", RangePolicy(space, 0, groups),
      KOKKOS_LAMBDA(const std::int64_t group, double& sum) {
        const std::int64_t first = group * counted_at_once;
        const std::int64_t end = first + counted_at_once < count ? first + counted_at_once : count;
        int found = 0;
        for (std::int64_t i = first; i < end; ++i) found += is_nonfinite(x[i]) ? 1 : 0;
        sum += found;
      },
      total);
}

}  // namespace

std::int64_t sum_of_squares_scratch(std::int64_t count) { return array_blocks(count) > 0 ? array_blocks(count) : 1; }

void block_sums_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& sums) {
  dispatch_master(x.dtype, [&]<class T>(T) { block_sums<T>(space, x.count(), x.as<T>(), sums.as<double>()); });
}

void add_block_sums(const ExecSpace& space, const Tensor& sums, const Tensor& result) {
  add_up(space, sums.count(), sums.as<double>(), result.as<double>());
}

void sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch, const Tensor& result) {
  block_sums_of_squares(space, x, scratch);
  add_block_sums(space, {scratch.data, DType::f64, {array_blocks(x.count())}}, result);
}

double sum_of_squares(const ExecSpace& space, const Tensor& x, const Tensor& scratch) {
  const Tensor result{scratch.data, DType::f64, {1}};
  sum_of_squares(space, x, scratch, result);
  return f64_on_host(space, result);
}

void count_nonfinite(const ExecSpace& space, const Tensor& x, const Tensor& result) {
  dispatch_master(x.dtype, [&]<class T>(T) { count_nonfinite<T>(space, x.count(), x.as<T>(), result.as<double>()); });
}

}  // namespace lockstep
