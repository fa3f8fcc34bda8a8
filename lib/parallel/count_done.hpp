// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/execution.hpp"

namespace lockstep {

/// sum += count, unless the step is left out, which the host may learn later. Pointers are into device memory.
void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum);

}  // namespace lockstep
