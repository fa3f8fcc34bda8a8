// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include "core/finite.hpp"
#include "nn/parameter_buffer.hpp"

// What the kernels of all optimizers share.
namespace lockstep {

/// Calls f(T{}, copy) with the type of the parameters and where their 16-bit copy goes; a null
/// pointer to T when there is none.
template <class F>
void dispatch_step(const ParameterBuffer& parameters, F&& f) {
  const Tensor rounded = parameters.rounded();
  if (!rounded) dispatch_master(parameters.dtype(), [&]<class T>(T) { f(T{}, static_cast<T*>(nullptr)); });
  else if (rounded.dtype == DType::bf16) f(float{}, rounded.as<bfloat16>());
  else f(float{}, rounded.as<half>());
}

/// Stores parameter i; sets `nonfinite` where it is that.
template <class T, class Copy>
KOKKOS_INLINE_FUNCTION void store_parameter(std::int64_t i, T value, T* parameters, Copy* copy, int& nonfinite) {
  parameters[i] = value;
  if constexpr (!std::is_same_v<T, Copy>) copy[i] = Copy(value);
  nonfinite |= is_nonfinite(value) ? 1 : 0;
}

/// Calls step(i, nonfinite) for i below `count`, and leaves in `result` (i32 [1]) whether any call has set its
/// `nonfinite`.
template <class Step>
void for_parameters(const ExecSpace& space, const char* label, std::int64_t count, const Tensor& result, Step step) {
  const Kokkos::View<int, MemorySpace, Kokkos::MemoryUnmanaged> to(result.as<int>());
  Kokkos::parallel_reduce(label, RangePolicy(space, 0, count), step, Kokkos::BOr<int, MemorySpace>(to));
}

}  // namespace lockstep
