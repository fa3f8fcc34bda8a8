// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/replica_steps.hpp"

#include "core/execution.hpp"

namespace lockstep {
namespace {

template <class T>
void difference_of(const ExecSpace& space, std::int64_t count, T weight, const T* from, const T* to, T* difference) {
  Kokkos::parallel_for(
      "lockstep::outer_step::difference", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { difference[i] = weight * (from[i] - to[i]); });
}

template <class T>
struct Coefficients {
  T share, learning_rate, momentum;
};

template <class T>
void step_with_velocity(const ExecSpace& space, std::int64_t count, const Coefficients<T>& c, const T* difference,
                        T* velocity, T* values) {
  Kokkos::parallel_for(
      "lockstep::outer_step::with_velocity", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        const T b = c.momentum * velocity[i] + c.share * difference[i];
        velocity[i] = b;
        values[i] -= c.learning_rate * (c.share * difference[i] + c.momentum * b);
      });
}

template <class T>
void step_without(const ExecSpace& space, std::int64_t count, T learning_rate, const T* difference, T* values) {
  Kokkos::parallel_for(
      "lockstep::outer_step::without_velocity", RangePolicy(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i) { values[i] -= learning_rate * difference[i]; });
}

template <class T>
void swap(const ExecSpace& space, std::int64_t count, T* values, T* others) {
  Kokkos::parallel_for(
      "lockstep::outer_step::swap", RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        const T before = values[i];
        values[i] = others[i];
        others[i] = before;
      });
}

}  // namespace

void weighted_difference(const ExecSpace& space, double weight, const Tensor& from, const Tensor& to,
                         const Tensor& difference) {
  dispatch_master(from.dtype, [&]<class T>(T) {
    difference_of(space, from.count(), static_cast<T>(weight), from.as<const T>(), to.as<const T>(),
                  difference.as<T>());
  });
}

void outer_step(const ExecSpace& space, const OuterStep& step, const Tensor& difference, const Tensor& velocity,
                const Tensor& values) {
  dispatch_master(values.dtype, [&]<class T>(T) {
    if (velocity)
      step_with_velocity(space, values.count(),
                         Coefficients<T>{static_cast<T>(step.share), static_cast<T>(step.learning_rate),
                                         static_cast<T>(step.momentum)},
                         difference.as<const T>(), velocity.as<T>(), values.as<T>());
    else
      step_without(space, values.count(), static_cast<T>(step.learning_rate * step.share), difference.as<const T>(),
                   values.as<T>());
  });
}

void swap_numbers(const ExecSpace& space, const Tensor& values, const Tensor& others) {
  dispatch_master(values.dtype, [&]<class T>(T) { swap(space, values.count(), values.as<T>(), others.as<T>()); });
}

}  // namespace lockstep
