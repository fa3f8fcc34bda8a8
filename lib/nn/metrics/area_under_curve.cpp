// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/value_metrics.hpp"

#include <Kokkos_BitManipulation.hpp>
#include <limits>

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Returns how many 128ths of an octave x is above 2^low, at most up to 2^high. An octave's parts are of equal width,
/// so this is a few bits of the number's representation, and the same on every machine.
KOKKOS_INLINE_FUNCTION std::int64_t parts_above(double x, std::int64_t low, std::int64_t high) {
  constexpr std::int64_t bias = 1023, unit = 52 - AreaUnderCurve::octave_bits;
  const std::int64_t parts = (Kokkos::bit_cast<std::int64_t>(x) >> unit) -
                             ((low + bias) << AreaUnderCurve::octave_bits),
                     most = (high - low) << AreaUnderCurve::octave_bits;
  return parts < 0 ? 0 : parts > most ? most : parts;
}

/// Returns the bin of output y: the sum of two numbers that rise with it, so that outputs which differ in either of
/// them are in different bins. One is uniform in y/(1 + |y|), the other one in the logarithm of the distance from 0,
/// and between ½ and 1 from 1, where fp32 probabilities differ by as little as 2⁻²⁴.
KOKKOS_INLINE_FUNCTION std::int64_t bin_of(double y) {
  using Auc = AreaUnderCurve;
  const double largest = 1e300;  // the quotient of an infinity would be NaN
  const double finite = y > largest ? largest : y < -largest ? -largest : y;
  const double size = finite < 0 ? -finite : finite;
  const double place = (1 + finite / (1 + size)) / 2;
  const auto even = static_cast<std::int64_t>(place * static_cast<double>(Auc::even_bins));
  const std::int64_t first = even < Auc::even_bins ? even : Auc::even_bins - 1;
  if (finite < 0) return first + Auc::negative_parts - parts_above(size, Auc::least_negative, Auc::most);
  if (finite < 0.5) return first + Auc::negative_parts + parts_above(size, Auc::least_positive, -1);
  const std::int64_t below_one = Auc::negative_parts + Auc::small_parts + Auc::near_one_parts;
  if (finite < 1) return first + below_one - parts_above(1 - size, Auc::least_from_one, -1);
  return first + below_one + parts_above(size, 0, Auc::most);
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
        Kokkos::atomic_add(own + (t[i] >= Compute<T>(0.5) ? bins : 0) + bin_of(output), 1.0);
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
