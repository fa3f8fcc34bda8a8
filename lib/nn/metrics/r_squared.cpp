// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/value_metrics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Of one output: Σ(t − y)², the number of examples, the mean of their targets, and Σ(t − mean)².
struct Moments {
  double errors, count, mean, squares;
};

/// Adds a batch to the moments of each output. Each output has one thread, which adds up the examples in order, first
/// about the batch's first target and then about the batch's mean. The merging of two parts is that of Chan, Golub and
/// LeVeque, 1979.
template <class T>
void add_moments(const ExecSpace& space, std::int64_t n, std::int64_t outputs, const T* y, const Compute<T>* t,
                 Moments* moments) {
  Kokkos::parallel_for(
      "lockstep::r_squared", RangePolicy(space, 0, outputs), KOKKOS_LAMBDA(const std::int64_t k) {
        if (n == 0) return;
        const auto first = static_cast<double>(t[k]), count = static_cast<double>(n);
        double errors = 0, offsets = 0, squares = 0;
        for (std::int64_t i = k; i < n * outputs; i += outputs) {
          const auto target = static_cast<double>(t[i]), error = target - static_cast<double>(Compute<T>(y[i]));
          errors += error * error;
          offsets += target - first;
        }
        const double mean = first + offsets / count;
        for (std::int64_t i = k; i < n * outputs; i += outputs) {
          const double deviation = static_cast<double>(t[i]) - mean;
          squares += deviation * deviation;
        }
        Moments& own = moments[k];
        const double all = own.count + count;
        const double distance = own.count > 0 ? mean - own.mean : 0;
        own.errors += errors;
        own.squares += squares + distance * distance * (own.count * count / all);
        own.mean = own.count > 0 ? own.mean + distance * (count / all) : mean;
        own.count = all;
      });
}

}  // namespace

void RSquared::add(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor&,
                   const Tensor& sums) const {
  dispatch_float(outputs.dtype, [&]<class T>(T) {
    add_moments(space, outputs.shape[0], outputs_, outputs.as<const T>(), targets.as<const Compute<T>>(),
                static_cast<Moments*>(sums.data));
  });
}

/// The means over all ranks come first, and then the squares about them: those about a rank's own mean, and what that
/// mean's distance adds.
double RSquared::value_over_ranks(std::span<const double> own, std::int64_t /*examples*/,
                                  const AddOverRanks& add) const {
  constexpr double rounding = 1e-24;  // of squares about a mean, relative to squares about 0
  const auto of = [&](std::int64_t output) {
    const double* const sums = own.data() + 4 * output;
    return Moments{.errors = sums[0], .count = sums[1], .mean = sums[2], .squares = sums[3]};
  };
  std::vector<Moments> channels(static_cast<std::size_t>(channels_), Moments{});
  for (std::int64_t output = 0; output < outputs_; ++output) {
    Moments& all = channels[static_cast<std::size_t>(output % channels_)];
    const Moments part = of(output);
    all.errors += part.errors;
    all.count += part.count;
    all.mean += part.count * part.mean;
  }
  add({&channels[0].errors, 4 * channels.size()});
  std::vector<double> squares(channels.size());
  for (Moments& channel : channels) channel.mean /= channel.count;
  for (std::int64_t output = 0; output < outputs_; ++output) {
    const auto channel = static_cast<std::size_t>(output % channels_);
    const Moments part = of(output);
    const double distance = part.mean - channels[channel].mean;
    squares[channel] += part.squares + (part.count > 0 ? part.count * distance * distance : 0);
  }
  add(squares);
  double total = 0;
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    const auto& [errors, count, mean, ignored] = channels[channel];
    const double variation = squares[channel];
    if (!std::isfinite(errors + variation)) return std::numeric_limits<double>::quiet_NaN();
    const bool varies = variation > rounding * (variation + count * mean * mean);
    total += varies ? 1 - errors / variation : errors == 0 ? 1 : 0;
  }
  return total / static_cast<double>(channels_);
}

}  // namespace lockstep
