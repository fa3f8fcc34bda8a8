// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"

namespace lockstep {

/// sum += count, unless the step is left out, of which the host may hear later. Pointers are to the step's memory.
void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum);

}  // namespace lockstep
