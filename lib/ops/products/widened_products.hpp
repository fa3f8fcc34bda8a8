// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "ops/products/provider.hpp"

namespace lockstep {

// 16-bit products for libraries that have none: operands are widened to fp32, multiplied and summed there by
// `provider`, and results are rounded once. Products of two 16-bit numbers are exact in fp32, so results differ from
// those of a matrix unit only by the order of the sums.

std::unique_ptr<InnerProduct> widened_inner_product(const Provider& provider, const InnerProductShape& shape);
std::unique_ptr<Convolution> widened_convolution(const Provider& provider, const ConvolutionShape& shape);

}  // namespace lockstep
