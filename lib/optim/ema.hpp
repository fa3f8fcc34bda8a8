// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/step_scalars.hpp"

// A moving average of the parameters: flat like an optimizer's state, of fp32 or fp64 like the parameters.
namespace lockstep {

/// average ← decay·average + (1 − decay)·parameters, over `count` blocks in the step's memory, unless the step is left
/// out; after the first one average ← parameters.
void update_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, double decay,
                    const StepScalars* step, const Tensor& parameters, const Tensor& average);

/// Each becomes what the other was.
void swap_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                  const Tensor& average);

}  // namespace lockstep
