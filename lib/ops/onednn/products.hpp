// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ops/convolution.hpp"
#include "ops/inner_product.hpp"

namespace lockstep {

// Products by oneDNN. These functions throw dnnl::error if oneDNN refuses the shape.
std::unique_ptr<InnerProduct> onednn_inner_product(const InnerProductShape& shape);
std::unique_ptr<Convolution> onednn_convolution(const ConvolutionShape& shape);

}  // namespace lockstep
