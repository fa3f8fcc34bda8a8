// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Null if the build has no oneDNN (missing.cpp then replaces provider.cpp).
const Provider* onednn_provider();

}  // namespace lockstep
