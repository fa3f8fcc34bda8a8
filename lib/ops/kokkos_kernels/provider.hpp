// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Null if the build has no Kokkos Kernels (missing.cpp then replaces provider.cpp).
const Provider* kokkos_kernels_provider();

}  // namespace lockstep
