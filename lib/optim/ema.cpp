// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/ema.hpp"

#include "core/execution.hpp"

namespace lockstep {
namespace {

/// Calls change(parameter, average) for each element.
template <class T, class Change>
void for_elements(const ExecSpace& space, const char* label, const ParameterBlock* blocks, std::int64_t count,
                  T* parameters, T* average, const Change& change) {
  if constexpr (thread_per_element)
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, count * parameter_block), KOKKOS_LAMBDA(const std::int64_t index) {
          const ParameterBlock block = blocks[index / parameter_block];
          const std::int64_t i = index % parameter_block;
          if (i < block.count) change(parameters[block.first + i], average[block.state + i]);
        });
  else
    Kokkos::parallel_for(
        label, RangePolicy(space, 0, count), KOKKOS_LAMBDA(const std::int64_t b) {
          const ParameterBlock block = blocks[b];
#pragma GCC ivdep
          for (std::int64_t i = 0; i < block.count; ++i) change(parameters[block.first + i], average[block.state + i]);
        });
}

template <class T>
struct Average {
  T rest;
  KOKKOS_INLINE_FUNCTION void operator()(T& parameter, T& average) const { average += rest * (parameter - average); }
};

template <class T>
struct Copy {
  KOKKOS_INLINE_FUNCTION void operator()(T& parameter, T& average) const { average = parameter; }
};

template <class T>
struct Swap {
  KOKKOS_INLINE_FUNCTION void operator()(T& parameter, T& average) const {
    const T before = parameter;
    parameter = average;
    average = before;
  }
};

}  // namespace

void update_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, double decay,
                    const Tensor& parameters, const Tensor& average) {
  dispatch_master(parameters.dtype, [&]<class T>(T) {
    T* const p = parameters.as<T>();
    T* const a = average.as<T>();
    if (decay == 0) for_elements(space, "lockstep::ema::begin", blocks, count, p, a, Copy<T>());
    else for_elements(space, "lockstep::ema::update", blocks, count, p, a, Average<T>{static_cast<T>(1 - decay)});
  });
}

void swap_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                  const Tensor& average) {
  dispatch_master(parameters.dtype, [&]<class T>(T) {
    for_elements(space, "lockstep::ema::swap", blocks, count, parameters.as<T>(), average.as<T>(), Swap<T>());
  });
}

}  // namespace lockstep
