// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// What an optimizer multiplies with in a step, a function of the learning rate and the step's number; what each is,
/// the optimizer knows. One rank computes them for all: powers and cosines differ in their last bits between kinds of
/// CPUs.
using StepCoefficients = Kokkos::Array<double, 4>;

/// What the kernels of an update read of its step, in the step's memory: kernels before them may have decided it.
struct StepScalars {
  StepCoefficients coefficients{};
  double gradient_scale = 1;          ///< times the summed gradients it is the gradient of the mean loss, clipped
  std::int32_t first = 0;             ///< no step was applied before
  std::int32_t left_out = 0;          ///< parameters, their copies, states and statistics stay as they are,
  std::int32_t nonfinite_before = 0;  ///< and so does what is known of the parameters (Optimizer::left_nonfinite)
};

/// Room for them, and a way to give them from the host.
class StepScalarsMemory {
 public:
  StepScalarsMemory() : memory_("lockstep::step_scalars", sizeof(StepScalars)) {}
  const StepScalars* set(const ExecSpace& space, const StepScalars& scalars) const {
    copy_from_host(space, &scalars, memory_.tensor(0, DType::u8, {sizeof(StepScalars)}));
    return reinterpret_cast<const StepScalars*>(memory_.data());
  }

 private:
  Buffer memory_;
};

}  // namespace lockstep
