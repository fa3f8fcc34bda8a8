// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>

#include "ops/convolution.hpp"

namespace lockstep {

/// One of the three products of a convolution, as planned by a library for one shape.
class ConvolutionProduct {
 public:
  virtual ~ConvolutionProduct() = default;

  virtual std::size_t workspace_bytes() const = 0;
  /// `tensors` are in the order that ConvolutionProducts gives. Returns at once. Throws Error(internal) if it cannot be
  /// started.
  virtual void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const = 0;
};

/// Tensors have shape.dtype, a bias master_dtype. Their layouts are those of Convolution, except that weights and their
/// gradients are channels-last: [filters, kernel_h, kernel_w, c/groups].
struct ConvolutionProducts {
  std::unique_ptr<ConvolutionProduct> forward;          ///< x, weight, bias (if forward adds it), y
  std::unique_ptr<ConvolutionProduct> data_gradient;    ///< dy, weight, dx
  std::unique_ptr<ConvolutionProduct> weight_gradient;  ///< x, dy, dweight
  bool adds_bias = true;                                ///< true if forward adds the bias and applies the activation
};

/// Throws PlanError (ops/library_plans.hpp) if the library declines. Returns null if there are no examples.
using PlanConvolution = std::shared_ptr<const ConvolutionProducts> (*)(const ConvolutionShape& shape);

/// A convolution made of a library's products. It adds what these leave out: the order of weights, a bias and an
/// activation that they do not support, and weight gradients that are accumulated or of another type. Null if the
/// library declines, or if a batch's images are not all aligned (may_begin_anywhere).
std::unique_ptr<Convolution> library_convolution(const ConvolutionShape& shape, PlanConvolution plan);

}  // namespace lockstep
