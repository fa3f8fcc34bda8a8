// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/blaslt/provider.hpp"

namespace lockstep {

const Provider* blaslt_provider() { return nullptr; }

}  // namespace lockstep
