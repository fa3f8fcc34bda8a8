// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/library_choices.hpp"

namespace lockstep {

struct ConvolutionShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  ///< extents of x
  std::int64_t filters = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;  ///< zeros around x
  std::int64_t groups = 1;
  DType dtype = DType::f32;
  bool bias = true;
  Activation activation = Activation::none;
  LibraryChoices choices;

  auto operator<=>(const ConvolutionShape&) const = default;
  std::int64_t out_h() const { return (h + pad_top + pad_bottom - kernel_h) / stride + 1; }
  std::int64_t out_w() const { return (w + pad_left + pad_right - kernel_w) / stride + 1; }
  /// Floating-point operations of one of the three products, padding included; multiply-adds count as two.
  double flops() const {
    return 2.0 * static_cast<double>(n * out_h() * out_w() * filters) *
           static_cast<double>(kernel_h * kernel_w * (c / groups));
  }
};

/// y = activation(x ⋆ W + b), a cross-correlation, planned for one shape (see InnerProduct).
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// This convolution for another number of images; it shares the weight. Null if the library declines.
  virtual std::unique_ptr<Convolution> resized(std::int64_t n) const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }

  /// weight [filters, c/groups, kernel_h, kernel_w]; must be called again whenever its values have changed.
  virtual void set_weight(const Tensor& weight) = 0;
  /// x [n, h, w, c], bias [filters] (empty if there is none), y [n, out_h, out_w, filters].
  virtual void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
                       const Tensor& workspace) = 0;
  virtual void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) = 0;
  virtual void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                               Store store, const Tensor& workspace) = 0;
};

}  // namespace lockstep
