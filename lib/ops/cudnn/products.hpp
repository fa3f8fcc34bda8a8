// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ops/attention.hpp"
#include "ops/convolution.hpp"
#include "ops/recurrent_sequence.hpp"

namespace lockstep {

// Products that cuDNN has planned for the device of this process; null if cuDNN declines.

std::unique_ptr<Convolution> plan_cudnn_convolution(const ConvolutionShape& shape);
std::unique_ptr<ScaledDotProductAttention> plan_cudnn_attention(const AttentionShape& shape);
std::unique_ptr<RecurrentSequence> plan_cudnn_recurrent(const RecurrentShape& shape);

}  // namespace lockstep
