// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/area_under_curve.hpp"

#include <limits>

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Returns the bin of output y. Bins are uniform in y/(1 + |y|), which rises fastest around 0 and, unlike a sigmoid,
/// has the same bits on every machine.
KOKKOS_INLINE_FUNCTION std::int64_t bin_of(double y, std::int64_t bins) {
  const double largest = 1e300;  // the quotient of an infinity would be NaN
  const double finite = y > largest ? largest : y < -largest ? -largest : y;
  const double place = (1 + finite / (1 + (finite < 0 ? -finite : finite))) / 2;
  const auto bin = static_cast<std::int64_t>(place * static_cast<double>(bins));
  return bin < bins ? bin : bins - 1;
}

/// Counts are integers below 2^53 in f64, so the sums do not depend on the order of the atomic additions.
template <class T>
void count_outputs(const ExecSpace& space, std::int64_t count, std::int64_t channels, std::int64_t bins,
                   std::int64_t sums_of_channel, const T* y, const Compute<T>* t, double* sums) {
  Kokkos::parallel_for(
      "lockstep::auc", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        double* const own = sums + i % channels * sums_of_channel;
        const auto output = static_cast<double>(Compute<T>(y[i]));
        if (output != output) return Kokkos::atomic_add(own + 2 * bins, 1.0);
        Kokkos::atomic_add(own + (t[i] >= Compute<T>(0.5) ? bins : 0) + bin_of(output, bins), 1.0);
      });
}

}  // namespace

void AreaUnderCurve::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
                         const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    count_outputs(space, outputs.count(), channels_, bins, sums_of_channel, outputs.as<const T>(),
                  targets.as<const Compute<T>>(), sums.as<double>());
  });
}

double AreaUnderCurve::value(std::span<const double> sums, std::int64_t) const {
  double total = 0, with_area = 0;
  for (std::size_t first = 0; first < sums.size(); first += sums_of_channel) {
    const auto zeros = sums.subspan(first, bins), ones = sums.subspan(first + bins, bins);
    if (sums[first + 2 * bins] > 0) return std::numeric_limits<double>::quiet_NaN();
    double zeros_below = 0, all_ones = 0, area = 0;
    for (std::size_t bin = 0; bin < zeros.size(); ++bin) {
      area += ones[bin] * (zeros_below + zeros[bin] / 2);
      zeros_below += zeros[bin];
      all_ones += ones[bin];
    }
    if (zeros_below == 0 || all_ones == 0) continue;
    total += area / (zeros_below * all_ones);
    with_area += 1;
  }
  return total / with_area;
}

}  // namespace lockstep
