// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

struct InnerProductShape {
  std::int64_t n = 0;    ///< rows of x
  std::int64_t in = 0;   ///< features of x
  std::int64_t out = 0;  ///< features of y
  DType dtype = DType::f32;
  bool bias = true;
  Activation activation = Activation::none;

  /// Multiply-adds of one of the three products, counted as two operations each.
  double flops() const { return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out); }
};

/// y = activation(x·Wᵀ + b), planned for one shape: what it needs is made in its constructor, and
/// calls allocate nothing. The backward calls take the gradient before the activation.
class InnerProduct {
 public:
  virtual ~InnerProduct() = default;

  /// Scratch memory that any of the calls may overwrite.
  virtual std::size_t workspace_bytes() const { return 0; }

  /// x [n, in], weight [out, in], bias [out] (empty without), y [n, out].
  virtual void forward(const ExecSpace& space, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y, const Tensor& workspace) = 0;
  /// dx = dy·W; dy [n, out], dx [n, in].
  virtual void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& weight, const Tensor& dx,
                             const Tensor& workspace) = 0;
  /// dweight (+)= dyᵀ·x.
  virtual void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                               Store store, const Tensor& workspace) = 0;
};

}  // namespace lockstep
