// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/replica_steps.hpp"

#include "core/dtype.hpp"
#include "core/execution.hpp"

namespace lockstep {
namespace {

template <class T>
void divide(const ExecSpace& space, std::int64_t count, T divisor, T* gradient) {
  Kokkos::parallel_for(
      "lockstep::stale_gradient::divide", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { gradient[i] /= divisor; });
}

/// Multiplies λ and g first: g² may overflow where λ is 0.
template <class T>
KOKKOS_INLINE_FUNCTION T compensated(T gradient, T lambda, T mean, T way) {
  return gradient + lambda * mean * way * gradient;
}

template <class T>
void compensate(const ExecSpace& space, std::int64_t count, T lambda, T scale, const T* now, const T* read,
                T* gradient) {
  Kokkos::parallel_for(
      "lockstep::stale_gradient::compensate", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        gradient[i] = compensated(gradient[i], lambda, scale * gradient[i], now[i] - read[i]);
      });
}

template <class T>
void compensate_adaptively(const ExecSpace& space, std::int64_t count, T lambda, T scale, const T* now, const T* read,
                           T* mean_square, T* gradient) {
  Kokkos::parallel_for(
      "lockstep::stale_gradient::compensate_adaptively", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) {
        const T mean = scale * gradient[i];
        const T m = T(0.95) * mean_square[i] + T(0.05) * mean * mean;
        // A mean square outlives a step that is skipped for its bad gradients.
        if (!is_nonfinite(m)) mean_square[i] = m;
        gradient[i] = compensated(gradient[i], lambda / Kokkos::sqrt(m + T(1e-7)), mean, now[i] - read[i]);
      });
}

}  // namespace

void divide_by_staleness(const ExecSpace& space, std::int64_t staleness, const Tensor& gradient) {
  dispatch_master(gradient.dtype,
                  [&]<class T>(T) { divide(space, gradient.count(), static_cast<T>(staleness), gradient.as<T>()); });
}

void compensate_delay(const ExecSpace& space, const DelayCompensation& compensation, std::int64_t examples,
                      const Tensor& now, const Tensor& read, const Tensor& mean_square, const Tensor& gradient) {
  dispatch_master(gradient.dtype, [&]<class T>(T) {
    const T lambda = static_cast<T>(compensation.lambda), scale = static_cast<T>(1 / static_cast<double>(examples));
    if (compensation.adaptive)
      compensate_adaptively(space, gradient.count(), lambda, scale, now.as<const T>(), read.as<const T>(),
                            mean_square.as<T>(), gradient.as<T>());
    else compensate(space, gradient.count(), lambda, scale, now.as<const T>(), read.as<const T>(), gradient.as<T>());
  });
}

}  // namespace lockstep
