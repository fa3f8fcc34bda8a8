// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/top_k.hpp"

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Adds to `sums` the number of hits and the number of rows that count. Counts are integers below 2^53 in f64, so the
/// sums do not depend on the order of the atomic additions.
template <class T>
void count_hits(const ExecSpace& space, std::int64_t k, std::int64_t ignored, std::int64_t rows, std::int64_t classes,
                const T* outputs, const std::int32_t* targets, double* sums) {
  Kokkos::parallel_for(
      "lockstep::top_k", RangePolicy(space, 0, rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const T* const y = outputs + i * classes;
        const std::int64_t target = targets[i];
        if (target == ignored) return;
        const auto of_target = Compute<T>(y[target]);
        std::int64_t after = 0;  // outputs that rank below the target's; NaN ranks below nothing, and nothing below NaN
        for (std::int64_t j = 0; j < classes; ++j) {
          const auto other = Compute<T>(y[j]);
          after += other < of_target || (other == of_target && j > target) ? 1 : 0;
        }
        if (classes - 1 - after < k && of_target == of_target) Kokkos::atomic_add(sums, 1.0);
        Kokkos::atomic_add(sums + 1, 1.0);
      });
}

}  // namespace

void TopK::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
               const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_hits(space, k_, ignored_, targets.count(), outputs.shape[-1], outputs.as<const T>(),
               targets.as<const std::int32_t>(), sums.as<double>());
  });
}

}  // namespace lockstep
