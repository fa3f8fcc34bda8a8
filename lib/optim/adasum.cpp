// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/replica_steps.hpp"

#include "core/element_range.hpp"
#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Number of independent partial sums in a block, so that additions can overlap.
constexpr int lanes = 8;

/// Computes a·b, |a|² and |b|² of each block; sums: [blocks, 3].
template <class T>
void block_products(const ExecSpace& space, std::int64_t count, const T* a, const T* b, double* sums) {
  Kokkos::parallel_for(
      "lockstep::adasum::products", RangePolicy(space, 0, array_blocks(count)),
      KOKKOS_LAMBDA(const std::int64_t block) {
        const std::int64_t end = (block + 1) * array_block < count ? (block + 1) * array_block : count;
        double ab[lanes] = {}, aa[lanes] = {}, bb[lanes] = {};
        const auto add = [&](int lane, std::int64_t i) {
          const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
          ab[lane] += x * y;
          aa[lane] += x * x;
          bb[lane] += y * y;
        };
        std::int64_t i = block * array_block;
        for (; i + lanes <= end; i += lanes)
          for (int lane = 0; lane < lanes; ++lane) add(lane, i + lane);
        for (; i < end; ++i) add(0, i);
        for (int lane = 1; lane < lanes; ++lane) {
          ab[0] += ab[lane];
          aa[0] += aa[lane];
          bb[0] += bb[lane];
        }
        sums[3 * block] = ab[0];
        sums[3 * block + 1] = aa[0];
        sums[3 * block + 2] = bb[0];
      });
}

/// Computes the factors of a and b; factors: [2].
void find_factors(const ExecSpace& space, std::int64_t blocks, const double* sums, double* factors) {
  Kokkos::parallel_for(
      "lockstep::adasum::factors", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        double ab = 0, aa = 0, bb = 0;
        for (std::int64_t block = 0; block < blocks; ++block) {
          ab += sums[3 * block];
          aa += sums[3 * block + 1];
          bb += sums[3 * block + 2];
        }
        factors[0] = aa > 0 ? 1 - ab / (2 * aa) : 1;
        factors[1] = bb > 0 ? 1 - ab / (2 * bb) : 1;
      });
}

template <class T>
void add_scaled(const ExecSpace& space, std::int64_t count, const double* factors, const T* b, T* a) {
  Kokkos::parallel_for(
      "lockstep::adasum::sum", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        a[i] = static_cast<T>(factors[0] * static_cast<double>(a[i]) + factors[1] * static_cast<double>(b[i]));
      });
}

}  // namespace

std::int64_t adasum_scratch(std::int64_t count) { return 3 * array_blocks(count) + 2; }

void adasum(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& scratch) {
  const std::int64_t blocks = array_blocks(a.count());
  auto* const sums = scratch.as<double>();
  double* const factors = sums + 3 * blocks;
  dispatch_master(a.dtype, [&]<class T>(T) {
    block_products(space, a.count(), a.as<const T>(), b.as<const T>(), sums);
    find_factors(space, blocks, sums, factors);
    add_scaled(space, a.count(), factors, b.as<const T>(), a.as<T>());
  });
}

}  // namespace lockstep
