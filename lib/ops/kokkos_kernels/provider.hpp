// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Null when the build has no Kokkos Kernels (missing.cpp stands for provider.cpp then).
const Provider* kokkos_kernels_provider();

}  // namespace lockstep
