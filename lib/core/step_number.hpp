// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>

namespace lockstep {

/// Number of a step: either a value known to the host, or a location in device memory, from which kernels of a
/// DeviceGraph read the number of each step that they run in.
class StepNumber {
 public:
  constexpr StepNumber(std::int64_t number = 0) : number_(number) {}
  explicit constexpr StepNumber(const std::int64_t* in_memory) : in_memory_(in_memory) {}

  /// Callable in kernels, and on the host if it holds a value.
  KOKKOS_INLINE_FUNCTION std::int64_t operator()() const { return in_memory_ ? *in_memory_ : number_; }

 private:
  std::int64_t number_ = 0;
  const std::int64_t* in_memory_ = nullptr;
};

}  // namespace lockstep
