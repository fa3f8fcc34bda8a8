// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "nn/parameter_buffer.hpp"
#include "optim/optimizer.hpp"

// Parameters and optimizers' states as the arrays of a checkpoint: /model/<layer>/<parameter> and
// /optimizer/<state>/<layer>/<parameter>.
namespace lockstep {

/// Null where there is none of that name.
const NamedArray* find_array(const std::vector<NamedArray>& arrays, const std::string& name);

/// `memory`: where live numbers are copied to (training_array_bytes); empty: on hosts the arrays are the live numbers,
/// and are to be written before the next step.
std::vector<NamedArray> training_arrays(const ExecSpace& space, const ParameterBuffer& parameters,
                                        const WholeStates& states, std::span<std::byte> memory);
std::size_t training_array_bytes(const ParameterBuffer& parameters, const Optimizer& optimizer);

/// Throws bad_data unless the arrays below `prefix` ("/model") are those of the parameters, with their shapes, and no
/// others.
void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters);

/// Copies the arrays below /model, which must pass check_arrays, into parameters. Values of fp32 files go into
/// fp64 models and the reverse.
void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters);
/// Copies the arrays that are there into parameters, whose names and shapes must fit; the other parameters stay as they
/// are.
void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters);
/// As restore_parameters, for /optimizer.
void restore_optimizer(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                       const WholeStates& states);

}  // namespace lockstep
