// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/update_scalars.hpp"

// The moving average of the parameters is flat like an optimizer state, and of f32 or f64 like the parameters.
namespace lockstep {

/// average ← parameters for `count` blocks, which lie in device memory.
void begin_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                   const Tensor& average);

/// average ← decay·average + (1 − decay)·parameters for `count` blocks, which lie in device memory. After the first
/// step, average ← parameters. Does nothing if the step is left out.
void update_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, double decay,
                    const UpdateScalars* step, const Tensor& parameters, const Tensor& average);

/// Exchanges parameters and average.
void swap_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                  const Tensor& average);

}  // namespace lockstep
