// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Null when the build has no oneDNN (missing.cpp stands for provider.cpp then).
const Provider* onednn_provider();

}  // namespace lockstep
