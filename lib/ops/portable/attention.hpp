// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/attention.hpp"

namespace lockstep {

/// Attention by kernels for CPUs (attention_cpu.hpp) or GPUs (attention_gpu.hpp), for every shape and type.
std::unique_ptr<ScaledDotProductAttention> portable_attention(const AttentionShape& shape);

}  // namespace lockstep
