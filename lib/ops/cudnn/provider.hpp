// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/provider.hpp"

namespace lockstep {

/// Convolutions of fp32 and 16 bits, attention of 16 bits. Null where the build is not for CUDA, or had no cuDNN.
const Provider* cudnn_provider();

}  // namespace lockstep
