// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ops/convolution.hpp"
#include "ops/gemm.hpp"
#include "ops/inner_product.hpp"

namespace lockstep {

// What makes a whole provider of a matrix product. `gemm` must outlive what they return.

std::unique_ptr<InnerProduct> inner_product_from(const Gemm& gemm, const InnerProductShape& shape);

/// Convolution as im2col and a product, a bounded number of images at a time; weight gradients without columns where
/// that is faster (portable/window_gradient.hpp).
std::unique_ptr<Convolution> convolution_from(const Gemm& gemm, const ConvolutionShape& shape);

}  // namespace lockstep
