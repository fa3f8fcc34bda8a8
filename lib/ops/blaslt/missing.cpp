// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

namespace lockstep {

const Provider* blaslt_provider() { return nullptr; }

}  // namespace lockstep
