// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Inner products by cuBLASLt or hipBLASLt. Null if the build is for neither CUDA nor HIP, or found no hipBLASLt.
const Provider* blaslt_provider();

}  // namespace lockstep
