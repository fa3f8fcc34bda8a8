// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/r_squared.hpp"

#include <cmath>
#include <limits>

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Adds Σ(t − y)², Σt and Σt² of each output to `sums`. Each output has one thread, which adds up the examples in
/// order.
template <class T>
void add_squares(const ExecSpace& space, std::int64_t n, std::int64_t outputs, const T* y, const Compute<T>* t,
                 double* sums) {
  Kokkos::parallel_for(
      "lockstep::r_squared", RangePolicy(space, 0, outputs), KOKKOS_LAMBDA(const std::int64_t k) {
        double errors = 0, values = 0, squares = 0;
        for (std::int64_t i = k; i < n * outputs; i += outputs) {
          const auto target = static_cast<double>(t[i]), error = target - static_cast<double>(Compute<T>(y[i]));
          errors += error * error;
          values += target;
          squares += target * target;
        }
        sums[3 * k] += errors;
        sums[3 * k + 1] += values;
        sums[3 * k + 2] += squares;
      });
}

}  // namespace

void RSquared::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
                   const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    add_squares(space, outputs.shape[0], outputs_, outputs.as<const T>(), targets.as<const Compute<T>>(),
                sums.as<double>());
  });
}

double RSquared::value(std::span<const double> sums, std::int64_t examples) const {
  constexpr double rounding = 1e-12;  // relative rounding error of sums of squares
  const auto rows = static_cast<double>(examples * (outputs_ / channels_));
  double total = 0;
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    double errors = 0, values = 0, squares = 0;
    for (std::int64_t output = channel; output < outputs_; output += channels_) {
      const double* const own = sums.data() + 3 * output;
      errors += own[0];
      values += own[1];
      squares += own[2];
    }
    if (!std::isfinite(errors + values + squares)) return std::numeric_limits<double>::quiet_NaN();
    const double variation = squares - values * values / rows;
    total += variation > rounding * squares ? 1 - errors / variation : errors == 0 ? 1 : 0;
  }
  return total / static_cast<double>(channels_);
}

}  // namespace lockstep
