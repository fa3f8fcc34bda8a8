// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/attention.hpp"

namespace lockstep {

/// By kernels for CPUs (attention_cpu.hpp) or for GPUs (attention_gpu.hpp); every shape and type.
std::unique_ptr<ScaledDotProductAttention> portable_attention(const AttentionShape& shape);

}  // namespace lockstep
