// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Convolutions of fp32 and 16 bits. Null where the build is not for HIP, or had no MIOpen.
const Provider* miopen_provider();

}  // namespace lockstep
