// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/library_convolution.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/bias.hpp"
#include "ops/convert.hpp"
#include "ops/library_plans.hpp"

namespace lockstep {
namespace {

class LibraryConvolution final : public Convolution {
 public:
  LibraryConvolution(const ConvolutionShape& shape, PlanConvolution plan, std::shared_ptr<Tensor> weight)
      : shape_(shape), plan_(plan), products_(plan(shape)), weight_(std::move(weight)) {}

  /// Null for what the library declines.
  static std::unique_ptr<Convolution> planned(const ConvolutionShape& shape, PlanConvolution plan,
                                              std::shared_ptr<Tensor> weight) {
    try {
      return std::make_unique<LibraryConvolution>(shape, plan, std::move(weight));
    } catch (const PlanError&) {
      return nullptr;
    }
  }

  std::unique_ptr<Convolution> resized(std::int64_t n) const override {
    ConvolutionShape shape = shape_;
    shape.n = n;
    return planned(shape, plan_, weight_);
  }
  std::size_t workspace_bytes() const override {
    if (!products_) return 0;
    return std::max({products_->forward->workspace_bytes(), products_->data_gradient->workspace_bytes(),
                     own_gradient_bytes() + products_->weight_gradient->workspace_bytes()});
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (!products_) return;
    if (!products_->adds_bias || !shape_.bias)
      run(space, *products_->forward, {x.data, weight_->data, y.data}, workspace.data);
    else run(space, *products_->forward, {x.data, weight_->data, bias.data, y.data}, workspace.data);
    if (!products_->adds_bias) bias_activation_forward(space, bias, shape_.activation, y);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    if (products_) run(space, *products_->data_gradient, {dy.data, weight_->data, dx.data}, workspace.data);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (!products_) {
      if (store == Store::replace) fill_zero(space, dweight);
      return;
    }
    if (dweight.dtype == shape_.dtype && store == Store::replace)
      return run(space, *products_->weight_gradient, {x.data, dy.data, dweight.data}, workspace.data);
    const Tensor own{workspace.data, shape_.dtype, dweight.shape};
    run(space, *products_->weight_gradient, {x.data, dy.data, own.data},
        static_cast<std::byte*>(workspace.data) + own_gradient_bytes());
    if (store == Store::add) add_converted(space, own, dweight);
    else convert(space, own, dweight);
  }

 private:
  /// Bytes of the weight's gradient as the library gives it; it stands at the workspace's start.
  std::size_t own_gradient_bytes() const {
    const std::int64_t count = shape_.filters * (shape_.c / shape_.groups) * shape_.kernel_h * shape_.kernel_w;
    return align_up(static_cast<std::size_t>(count) * size_of(shape_.dtype));
  }
  static void run(const ExecSpace& space, const ConvolutionProduct& product, std::initializer_list<void*> tensors,
                  void* workspace) {
    product.run(space, {tensors.begin(), tensors.size()}, workspace);
  }

  ConvolutionShape shape_;
  PlanConvolution plan_;
  std::shared_ptr<const ConvolutionProducts> products_;  // null: no examples
  std::shared_ptr<Tensor> weight_;
};

}  // namespace

std::unique_ptr<Convolution> library_convolution(const ConvolutionShape& shape, PlanConvolution plan) {
  const std::int64_t x = shape.h * shape.w * shape.c, y = shape.out_h() * shape.out_w() * shape.filters;
  if (!may_begin_anywhere(shape.dtype, {x, y})) return nullptr;
  return LibraryConvolution::planned(shape, plan, std::make_shared<Tensor>());
}

}  // namespace lockstep
