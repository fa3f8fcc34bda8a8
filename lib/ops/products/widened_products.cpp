// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/elementwise/copies.hpp"

namespace lockstep {
namespace {

/// The common part of both kinds of products: `Product` is InnerProduct or Convolution.
template <class Product>
class Widened final : public Product {
 public:
  /// Number of elements of x, of the weight and of y.
  struct Counts {
    std::int64_t x, weight, y;
  };
  /// The fp32 copy of the weight, shared by the products for all batch sizes.
  struct Weight {
    Tensor given;       // the 16-bit weight
    OwnedTensor wide;   // allocated with the first weight, since `check` plans without device memory
    bool fresh = true;  // false if wide no longer equals given
  };

  Widened(std::unique_ptr<Product> inner, const Counts& each, std::int64_t n, std::shared_ptr<Weight> weight)
      : inner_(std::move(inner)), each_(each), n_(n), weight_(std::move(weight)) {}

  std::unique_ptr<Product> resized(std::int64_t n) const override {
    auto inner = inner_->resized(n);
    return inner ? std::make_unique<Widened>(std::move(inner), each_, n, weight_) : nullptr;
  }
  std::size_t workspace_bytes() const override { return x_bytes() + y_bytes() + inner_->workspace_bytes(); }

  void set_weight(const Tensor& weight) override {
    if (!weight_->wide.get()) weight_->wide = OwnedTensor("lockstep::wide_weight", DType::f32, {each_.weight});
    weight_->given = weight;
    weight_->fresh = false;
  }
  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    widen_weight(space);
    const Tensor wide_y = wide(workspace, x_bytes(), y.shape);
    inner_->forward(space, widened(space, x, workspace, 0), bias, wide_y, rest(workspace));
    convert(space, wide_y, y);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    widen_weight(space);
    const Tensor wide_dx = wide(workspace, 0, dx.shape);
    inner_->backward_data(space, widened(space, dy, workspace, x_bytes()), wide_dx, rest(workspace));
    convert(space, wide_dx, dx);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    inner_->backward_weight(space, widened(space, x, workspace, 0), widened(space, dy, workspace, x_bytes()), dweight,
                            store, rest(workspace));
  }

 private:
  std::size_t x_bytes() const { return align_up(static_cast<std::size_t>(n_ * each_.x) * sizeof(float)); }
  std::size_t y_bytes() const { return align_up(static_cast<std::size_t>(n_ * each_.y) * sizeof(float)); }
  static Tensor wide(const Tensor& workspace, std::size_t offset, const Shape& shape) {
    return {static_cast<std::byte*>(workspace.data) + offset, DType::f32, shape};
  }
  static Tensor widened(const ExecSpace& space, const Tensor& from, const Tensor& workspace, std::size_t offset) {
    const Tensor to = wide(workspace, offset, from.shape);
    convert(space, from, to);
    return to;
  }
  Tensor rest(const Tensor& workspace) const {
    const std::size_t used = x_bytes() + y_bytes();
    return {static_cast<std::byte*>(workspace.data) + used,
            DType::u8,
            {static_cast<std::int64_t>(inner_->workspace_bytes())}};
  }
  void widen_weight(const ExecSpace& space) {
    if (weight_->fresh) return;
    convert(space, weight_->given, weight_->wide.get());
    inner_->set_weight(weight_->wide.get());
    weight_->fresh = true;
  }

  std::unique_ptr<Product> inner_;
  Counts each_;  // for one example
  std::int64_t n_;
  std::shared_ptr<Weight> weight_;
};

template <class Product, class Shape>
std::unique_ptr<Product> widened(std::unique_ptr<Product> inner, const typename Widened<Product>::Counts& each,
                                 const Shape& shape) {
  if (!inner) return nullptr;
  return std::make_unique<Widened<Product>>(std::move(inner), each, shape.n,
                                            std::make_shared<typename Widened<Product>::Weight>());
}

}  // namespace

std::unique_ptr<InnerProduct> widened_inner_product(const Provider& provider, const InnerProductShape& shape) {
  InnerProductShape wide = shape;
  wide.dtype = DType::f32;
  return widened(provider.inner_product(wide), {shape.in, shape.in * shape.out, shape.out}, shape);
}

std::unique_ptr<Convolution> widened_convolution(const Provider& provider, const ConvolutionShape& shape) {
  ConvolutionShape wide = shape;
  wide.dtype = DType::f32;
  return widened(
      provider.convolution(wide),
      {shape.h * shape.w * shape.c, shape.filters * (shape.c / shape.groups) * shape.kernel_h * shape.kernel_w,
       shape.out_h() * shape.out_w() * shape.filters},
      shape);
}

}  // namespace lockstep
