// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>

#include "ops/convolution.hpp"

namespace lockstep {

/// One of the three products of a convolution, as a library has planned it for one shape.
class ConvolutionProduct {
 public:
  virtual ~ConvolutionProduct() = default;

  virtual std::size_t workspace_bytes() const = 0;
  /// `tensors` in the order that ConvolutionProducts says. Returns at once. Throws Error(internal) when it cannot be
  /// started.
  virtual void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const = 0;
};

/// Tensors are of shape.dtype, a bias of master_dtype. They lie as those of Convolution do, but for weights and their
/// gradients, which are channels-last, too: [filters, kernel_h, kernel_w, c/groups].
struct ConvolutionProducts {
  std::unique_ptr<ConvolutionProduct> forward;          ///< x, weight, bias (where forward adds it), y
  std::unique_ptr<ConvolutionProduct> data_gradient;    ///< dy, weight, dx
  std::unique_ptr<ConvolutionProduct> weight_gradient;  ///< x, dy, dweight
  bool adds_bias = true;                                ///< forward does, and applies the activation
};

/// Throws PlanError (ops/library_plans.hpp) for what the library declines. Null for no examples.
using PlanConvolution = std::shared_ptr<const ConvolutionProducts> (*)(const ConvolutionShape& shape);

/// A convolution of such products, and what they leave out: the order of weights, a bias and an activation that they do
/// not know, weight gradients that are added, or of another type. Null for what the library declines, and where images
/// may not begin anywhere.
std::unique_ptr<Convolution> library_convolution(const ConvolutionShape& shape, PlanConvolution plan);

}  // namespace lockstep
