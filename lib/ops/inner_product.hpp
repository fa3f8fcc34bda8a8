// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/library_choices.hpp"

namespace lockstep {

struct InnerProductShape {
  std::int64_t n = 0;        ///< rows of x
  std::int64_t in = 0;       ///< features of x
  std::int64_t out = 0;      ///< features of y
  DType dtype = DType::f32;  ///< type of x, y, their gradients and the weight
  bool bias = true;
  Activation activation = Activation::none;
  std::int64_t uses = 1;  ///< number of uses of one weight before the next is set; decides whether rearranging it pays
  LibraryChoices choices;

  /// Floating-point operations of one of the three products; multiply-adds count as two.
  double flops() const { return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out); }
};

/// y = activation(x·Wᵀ + b), planned for one shape: the constructor allocates everything, and calls allocate nothing.
/// Sums, the bias and the weight's gradient have master_dtype. The backward calls take the gradient of the activation's
/// input.
class InnerProduct {
 public:
  virtual ~InnerProduct() = default;

  /// This product for another number of rows; it shares the weight. Null if the library declines.
  virtual std::unique_ptr<InnerProduct> resized(std::int64_t n) const = 0;
  /// Bytes of scratch memory, which any call may overwrite.
  virtual std::size_t workspace_bytes() const { return 0; }

  /// weight [out, in]; must be called again whenever its values have changed. Its address must not change.
  virtual void set_weight(const Tensor& weight) = 0;
  /// x [n, in], bias [out] (empty if there is none), y [n, out].
  virtual void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
                       const Tensor& workspace) = 0;
  /// dx = dy·W; dy [n, out], dx [n, in].
  virtual void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) = 0;
  /// dweight (+)= dyᵀ·x.
  virtual void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                               Store store, const Tensor& workspace) = 0;
};

}  // namespace lockstep
