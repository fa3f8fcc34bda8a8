// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Convolutions in fp32 and 16 bits. Null if the build is not for HIP, or found no MIOpen.
const Provider* miopen_provider();

}  // namespace lockstep
