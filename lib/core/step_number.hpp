// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>

namespace lockstep {

/// The number of a step: known to the host, or in the step's memory, where kernels that were recorded once
/// (DeviceGraph) find that of each step in which they run.
class StepNumber {
 public:
  constexpr StepNumber(std::int64_t number = 0) : number_(number) {}
  explicit constexpr StepNumber(const std::int64_t* in_memory) : in_memory_(in_memory) {}

  /// In kernels, and on the host where it knows the number.
  KOKKOS_INLINE_FUNCTION std::int64_t operator()() const { return in_memory_ ? *in_memory_ : number_; }

 private:
  std::int64_t number_ = 0;
  const std::int64_t* in_memory_ = nullptr;
};

}  // namespace lockstep
