// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Always present; supports every shape and type.
const Provider* portable_provider();

}  // namespace lockstep
