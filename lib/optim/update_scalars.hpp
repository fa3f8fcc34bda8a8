// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// The factors that an optimizer uses in a step. They depend on the learning rate and the step's number; each optimizer
/// defines its own. One rank computes them for all ranks, because powers and cosines differ in their last bits between
/// CPU models.
using StepCoefficients = Kokkos::Array<double, 4>;

/// What an update's kernels read about their step. It lies in device memory, so that kernels before them can set
/// it.
struct UpdateScalars {
  StepCoefficients coefficients{};
  double gradient_scale = 1;  ///< summed gradients times this are the clipped gradient of the mean loss
  std::int32_t first = 0;     ///< not 0: no step was applied before
  /// Not 0: parameters, their copies, states and statistics stay unchanged.
  std::int32_t left_out = 0;
  /// Value of Optimizer::nonfinite before a step that is left out, which keeps it.
  std::int32_t nonfinite_before = 0;
};

/// Memory for UpdateScalars, which the host can set.
class UpdateScalarsMemory {
 public:
  UpdateScalarsMemory() : memory_("lockstep::update_scalars", sizeof(UpdateScalars)) {}
  const UpdateScalars* set(const ExecSpace& space, const UpdateScalars& scalars) const {
    copy_from_host(space, &scalars, memory_.tensor(0, DType::u8, {sizeof(UpdateScalars)}));
    return reinterpret_cast<const UpdateScalars*>(memory_.data());
  }

 private:
  Buffer memory_;
};

}  // namespace lockstep
