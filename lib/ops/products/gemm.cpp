// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/gemm.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/portable/products.hpp"
#include "ops/products/im2col.hpp"

namespace lockstep {
namespace {

/// The address of element `first` of `tensor`.
void* at(const Tensor& tensor, std::int64_t first) {
  return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(first) * size_of(tensor.dtype);
}

/// The weight gradient of a rank that has no examples in a step: zero.
void no_examples(const ExecSpace& space, const Tensor& dweight, Store store) {
  if (store == Store::replace) fill_zero(space, dweight);
}

class GemmInnerProduct final : public InnerProduct {
 public:
  GemmInnerProduct(const Gemm& gemm, const InnerProductShape& shape) : gemm_(gemm), shape_(shape) {}

  std::unique_ptr<InnerProduct> resized(std::int64_t n) const override {
    auto other = std::make_unique<GemmInnerProduct>(*this);
    other->shape_.n = n;
    return other;
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y, const Tensor&) override {
    if (shape_.n == 0) return;
    gemm_.multiply(space, shape_.dtype, shape_.n, shape_.out, shape_.in, {x.data, shape_.in},
                   {weight_->data, shape_.in, Transpose::yes}, y.data, shape_.out, Store::replace);
    bias_activation_forward(space, bias, shape_.activation, y);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor&) override {
    if (shape_.n == 0) return;
    gemm_.multiply(space, shape_.dtype, shape_.n, shape_.in, shape_.out, {dy.data, shape_.out},
                   {weight_->data, shape_.in}, dx.data, shape_.in, Store::replace);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor&) override {
    if (shape_.n == 0) return no_examples(space, dweight, store);
    gemm_.multiply(space, shape_.dtype, shape_.out, shape_.in, shape_.n, {dy.data, shape_.out, Transpose::yes},
                   {x.data, shape_.in}, dweight.data, shape_.in, store);
  }

 private:
  const Gemm& gemm_;
  InnerProductShape shape_;
  std::shared_ptr<Tensor> weight_ = std::make_shared<Tensor>();
};

/// A convolution as matrix products. With `columns` [images·out_h·out_w, k] of x, where k stands for (kernel_h,
/// kernel_w, c/groups), each group is a product with its weights W [filters/groups, k]:
///   y = columns·Wᵀ,  dcolumns = dy·W,  dW = dyᵀ·columns.
/// Channels are innermost in k, as in x, so that columns consist of contiguous runs of x; the weights are brought to
/// that order in the workspace. Some gradients dW need no columns (window_gradient).
class GemmConvolution final : public Convolution {
 public:
  GemmConvolution(const Gemm& gemm, const ConvolutionShape& shape)
      : gemm_(gemm),
        shape_(shape),
        pixels_(shape.out_h() * shape.out_w()),
        k_(shape.kernel_h * shape.kernel_w * (shape.c / shape.groups)),
        group_filters_(shape.filters / shape.groups),
        plain_(is_plain(shape)),
        by_windows_(!plain_ && has_window_gradient(shape)) {
    const std::int64_t image_bytes = std::max<std::int64_t>(1, pixels_ * k_ * element_bytes());
    images_ = std::clamp<std::int64_t>(column_budget / image_bytes, 1, std::max<std::int64_t>(1, shape.n));
  }

  std::unique_ptr<Convolution> resized(std::int64_t n) const override {
    ConvolutionShape shape = shape_;
    shape.n = n;
    auto other = std::make_unique<GemmConvolution>(gemm_, shape);
    other->weight_ = weight_;
    return other;
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  std::size_t workspace_bytes() const override {
    if (plain_) return 0;
    const auto columns = columns_offset() + static_cast<std::size_t>(images_ * pixels_ * k_ * element_bytes());
    return by_windows_ ? std::max(columns, window_gradient_workspace_bytes(shape_)) : columns;
  }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    const Tensor ordered = order_weight(space, *weight_, workspace);
    for_chunks([&](const Im2col& chunk, std::int64_t rows, std::int64_t first_row) {
      for (std::int64_t group = 0; group < shape_.groups; ++group) {
        const MatrixOperand columns = make_columns(space, chunk, group, x, workspace);
        gemm_.multiply(space, shape_.dtype, rows, group_filters_, k_, columns,
                       {at(ordered, group * group_filters_ * k_), k_, Transpose::yes},
                       at(y, first_row * shape_.filters + group * group_filters_), shape_.filters, Store::replace);
      }
      // The chunk is still in the cache.
      bias_activation_forward(space, bias, shape_.activation,
                              {at(y, first_row * shape_.filters), y.dtype, {rows, shape_.filters}});
    });
  }

  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    const Tensor ordered = order_weight(space, *weight_, workspace);
    for_chunks([&](const Im2col& chunk, std::int64_t rows, std::int64_t first_row) {
      for (std::int64_t group = 0; group < shape_.groups; ++group) {
        const MatrixOperand gradient{at(dy, first_row * shape_.filters + group * group_filters_), shape_.filters};
        const MatrixOperand weights{at(ordered, group * group_filters_ * k_), k_};
        if (plain_) {
          gemm_.multiply(space, shape_.dtype, rows, k_, group_filters_, gradient, weights,
                         at(dx, first_row * shape_.c + group * k_), shape_.c, Store::replace);
        } else {
          const Tensor columns = columns_of(workspace, chunk.images);
          gemm_.multiply(space, shape_.dtype, rows, k_, group_filters_, gradient, weights, columns.data, k_,
                         Store::replace);
          col2im(space, chunk, group, columns, dx);
        }
      }
    });
  }

  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (shape_.n == 0) return no_examples(space, dweight, store);
    if (by_windows_) return window_gradient(space, shape_, x, dy, dweight, store, workspace);
    const Tensor ordered = plain_ ? dweight : weight_of(workspace);
    bool first = !plain_ || store == Store::replace;
    for_chunks([&](const Im2col& chunk, std::int64_t rows, std::int64_t first_row) {
      for (std::int64_t group = 0; group < shape_.groups; ++group) {
        const MatrixOperand columns = make_columns(space, chunk, group, x, workspace);
        gemm_.multiply(space, shape_.dtype, group_filters_, k_, rows,
                       {at(dy, first_row * shape_.filters + group * group_filters_), shape_.filters, Transpose::yes},
                       columns, at(ordered, group * group_filters_ * k_), k_, first ? Store::replace : Store::add);
      }
      first = false;
    });
    if (!plain_) from_channels_last(space, shape_, ordered, dweight, store);
  }

 private:
  // Bytes of columns that are made at a time. On CPUs they should stay in a core's caches until the product reads them.
  static constexpr std::int64_t column_budget = thread_per_element ? 256 << 20 : 1 << 20;

  /// True for a 1×1 convolution without stride and padding, which is a product without columns.
  static bool is_plain(const ConvolutionShape& s) {
    return s.kernel_h == 1 && s.kernel_w == 1 && s.stride == 1 && s.pad_top == 0 && s.pad_left == 0 &&
           s.pad_bottom == 0 && s.pad_right == 0;
  }

  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(shape_.dtype)); }
  std::size_t columns_offset() const {
    return align_up(static_cast<std::size_t>(shape_.filters * k_ * element_bytes()));
  }
  Tensor weight_of(const Tensor& workspace) const { return {workspace.data, shape_.dtype, {shape_.filters, k_}}; }
  Tensor columns_of(const Tensor& workspace, std::int64_t images) const {
    return {static_cast<std::byte*>(workspace.data) + columns_offset(), shape_.dtype, {images * pixels_, k_}};
  }

  Tensor order_weight(const ExecSpace& space, const Tensor& weight, const Tensor& workspace) const {
    if (plain_) return weight;
    const Tensor ordered = weight_of(workspace);
    to_channels_last(space, shape_, weight, ordered);
    return ordered;
  }

  MatrixOperand make_columns(const ExecSpace& space, const Im2col& chunk, std::int64_t group, const Tensor& x,
                             const Tensor& workspace) const {
    if (plain_) return {at(x, chunk.first_image * pixels_ * shape_.c + group * k_), shape_.c};
    const Tensor columns = columns_of(workspace, chunk.images);
    im2col(space, chunk, group, x, columns);
    return {columns.data, k_};
  }

  /// Calls work(chunk, number of its rows of y, its first row of y).
  template <class Work>
  void for_chunks(Work work) const {
    const std::int64_t step = plain_ ? std::max<std::int64_t>(1, shape_.n) : images_;
    for (std::int64_t image = 0; image < shape_.n; image += step) {
      const std::int64_t images = std::min(step, shape_.n - image);
      work(Im2col{shape_, image, images}, images * pixels_, image * pixels_);
    }
  }

  const Gemm& gemm_;
  ConvolutionShape shape_;
  std::int64_t pixels_;  // in an image of y
  std::int64_t k_;
  std::int64_t group_filters_;
  bool plain_;
  bool by_windows_;      // whether the weight gradient uses windows
  std::int64_t images_;  // in a chunk
  std::shared_ptr<Tensor> weight_ = std::make_shared<Tensor>();
};

}  // namespace

std::unique_ptr<InnerProduct> inner_product_from(const Gemm& gemm, const InnerProductShape& shape) {
  return std::make_unique<GemmInnerProduct>(gemm, shape);
}

std::unique_ptr<Convolution> convolution_from(const Gemm& gemm, const ConvolutionShape& shape) {
  return std::make_unique<GemmConvolution>(gemm, shape);
}

}  // namespace lockstep
