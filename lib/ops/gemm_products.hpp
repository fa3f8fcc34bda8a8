// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ops/convolution.hpp"
#include "ops/gemm.hpp"
#include "ops/inner_product.hpp"

namespace lockstep {

// Build a provider's products from a matrix product. `gemm` must outlive the returned objects.

std::unique_ptr<InnerProduct> inner_product_from(const Gemm& gemm, const InnerProductShape& shape);

/// A convolution as im2col and a matrix product, for a bounded number of images at a time. Weight gradients avoid
/// columns where that is faster (portable/window_gradient.hpp).
std::unique_ptr<Convolution> convolution_from(const Gemm& gemm, const ConvolutionShape& shape);

}  // namespace lockstep
