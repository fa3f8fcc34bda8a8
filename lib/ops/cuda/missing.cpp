// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/cuda/provider.hpp"

namespace lockstep {

const Provider* cublaslt_provider() { return nullptr; }

}  // namespace lockstep
