// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/library_products.hpp"

#include <algorithm>
#include <tuple>

#include "core/memory_plan.hpp"
#include "ops/elementwise/copies.hpp"
#include "ops/elementwise/elementwise.hpp"

namespace lockstep {
namespace {

class LibraryConvolution final : public Convolution {
 public:
  LibraryConvolution(const ConvolutionShape& shape, PlanConvolution plan, std::shared_ptr<Tensor> weight)
      : shape_(shape), plan_(plan), products_(plan(shape)), weight_(std::move(weight)) {}

  /// Null if the library declines.
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
    const std::size_t weight = is_rearranged() ? weight_bytes() : 0;
    return std::max({weight + products_->forward->workspace_bytes(),
                     weight + products_->data_gradient->workspace_bytes(),
                     weight_bytes() + products_->weight_gradient->workspace_bytes()});
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (!products_) return;
    const auto [weight, rest] = channels_last_weight(space, workspace);
    if (!products_->adds_bias || !shape_.bias) run(space, *products_->forward, {x.data, weight, y.data}, rest);
    else run(space, *products_->forward, {x.data, weight, bias.data, y.data}, rest);
    if (!products_->adds_bias) bias_activation_forward(space, bias, shape_.activation, y);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    if (!products_) return;
    const auto [weight, rest] = channels_last_weight(space, workspace);
    run(space, *products_->data_gradient, {dy.data, weight, dx.data}, rest);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (!products_) {
      if (store == Store::replace) fill_zero(space, dweight);
      return;
    }
    if (!is_rearranged() && dweight.dtype == shape_.dtype && store == Store::replace)
      return run(space, *products_->weight_gradient, {x.data, dy.data, dweight.data}, workspace.data);
    run(space, *products_->weight_gradient, {x.data, dy.data, workspace.data}, behind_weight(workspace));
    const Tensor gradient{workspace.data, shape_.dtype, {shape_.filters, taps(), depth()}};
    if (is_rearranged()) transpose(space, gradient, dweight.reshaped({shape_.filters, depth(), taps()}), store);
    else if (store == Store::add) add_converted(space, gradient.reshaped(dweight.shape), dweight);
    else convert(space, gradient.reshaped(dweight.shape), dweight);
  }

 private:
  std::int64_t depth() const { return shape_.c / shape_.groups; }
  std::int64_t taps() const { return shape_.kernel_h * shape_.kernel_w; }
  /// True if a channels-last weight has another element order than the one given.
  bool is_rearranged() const { return depth() > 1 && taps() > 1; }
  /// Bytes of the weight, or of its gradient, in the library's layout; it lies at the start of the workspace.
  std::size_t weight_bytes() const {
    return align_up(static_cast<std::size_t>(shape_.filters * depth() * taps()) * size_of(shape_.dtype));
  }
  void* behind_weight(const Tensor& workspace) const {
    return static_cast<std::byte*>(workspace.data) + weight_bytes();
  }
  /// The weight in the library's layout, and the rest of the workspace.
  std::pair<void*, void*> channels_last_weight(const ExecSpace& space, const Tensor& workspace) const {
    if (!is_rearranged()) return {weight_->data, workspace.data};
    const Tensor weight{workspace.data, shape_.dtype, {shape_.filters, taps(), depth()}};
    transpose(space, weight_->reshaped({shape_.filters, depth(), taps()}), weight);
    return {weight.data, behind_weight(workspace)};
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

class LibraryRecurrent final : public RecurrentSequence {
 public:
  LibraryRecurrent(const RecurrentShape& shape, std::shared_ptr<const RecurrentProducts> products)
      : shape_(shape), products_(std::move(products)) {}

  std::size_t saved_bytes() const override { return products_->saved_bytes(); }
  std::size_t workspace_bytes() const override { return library_at() + products_->workspace_bytes(); }

  void forward(const ExecSpace& space, const RecurrentTensors& t) override {
    pack(space, t);
    products_->forward(space, packed(t).data, t.x.data, t.y.data, t.saved.data, at(t, library_at()));
  }

  void backward(const ExecSpace& space, const RecurrentTensors& t, const Tensor& dy, const Tensor& dx,
                std::span<const Tensor> gradients, Store store) override {
    void* const scratch = at(t, library_at());
    pack(space, t);
    products_->backward_data(space, packed(t).data, t.y.data, dy.data, dx ? dx.data : at(t, unwanted_dx_at()),
                             t.saved.data, scratch);
    if (!gradients[0]) return;
    const Tensor own{at(t, gradients_at()), shape_.dtype, {products_->weight_count()}};
    fill_zero(space, own);
    products_->backward_weights(space, t.x.data, t.y.data, own.data, t.saved.data, scratch);
    for (const WeightPiece& piece : products_->pieces()) {
      const Tensor from = piece.in_library(own);
      const Tensor to = piece.in_parameter(gradients[piece.parameter]);
      if (store == Store::add) add_converted(space, from, to);
      else convert(space, from, to);
    }
  }

 private:
  // Layout of the workspace: weights in the library's layout, their gradients, a dx for callers that want none, the
  // library's own workspace.
  std::size_t weight_bytes() const {
    return align_up(static_cast<std::size_t>(products_->weight_count()) * size_of(shape_.dtype));
  }
  std::size_t gradients_at() const { return weight_bytes(); }
  std::size_t unwanted_dx_at() const { return 2 * weight_bytes(); }
  std::size_t library_at() const {
    const auto dx = static_cast<std::size_t>(shape_.n * shape_.length * shape_.in) * size_of(shape_.dtype);
    return unwanted_dx_at() + align_up(dx);
  }
  static void* at(const RecurrentTensors& t, std::size_t offset) {
    return static_cast<std::byte*>(t.workspace.data) + offset;
  }
  Tensor packed(const RecurrentTensors& t) const {
    return {t.workspace.data, shape_.dtype, {products_->weight_count()}};
  }
  void pack(const ExecSpace& space, const RecurrentTensors& t) const {
    for (const WeightPiece& piece : products_->pieces())
      copy(space, piece.in_parameter(t.weights[piece.parameter]), piece.in_library(packed(t)));
  }

  RecurrentShape shape_;
  std::shared_ptr<const RecurrentProducts> products_;
};

}  // namespace

std::unique_ptr<Convolution> library_convolution(const ConvolutionShape& shape, PlanConvolution plan) {
  const std::int64_t x = shape.h * shape.w * shape.c, y = shape.out_h() * shape.out_w() * shape.filters;
  if (!may_begin_anywhere(shape.dtype, {x, y})) return nullptr;
  return LibraryConvolution::planned(shape, plan, std::make_shared<Tensor>());
}

std::vector<WeightPiece> merged(std::vector<WeightPiece> pieces) {
  std::ranges::sort(pieces, {}, [](const WeightPiece& piece) { return std::tuple(piece.parameter, piece.first); });
  std::vector<WeightPiece> found;
  for (const WeightPiece& piece : pieces) {
    if (!found.empty()) {
      WeightPiece& last = found.back();
      if (last.parameter == piece.parameter && last.first + last.count == piece.first &&
          last.place + last.count == piece.place) {
        last.count += piece.count;
        continue;
      }
    }
    found.push_back(piece);
  }
  return found;
}

std::unique_ptr<RecurrentSequence> library_recurrent(const RecurrentShape& shape, PlanRecurrent plan) {
  if (!may_begin_anywhere(shape.dtype, {shape.length * shape.in, shape.length * shape.outputs()})) return nullptr;
  try {
    return std::make_unique<LibraryRecurrent>(shape, plan(shape));
  } catch (const PlanError&) {
    return nullptr;
  }
}

}  // namespace lockstep
