// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/onednn/call.hpp"
#include "ops/portable/products.hpp"
#include "ops/products/gemm.hpp"

namespace lockstep {
namespace {

using Layout = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
constexpr auto algorithm = dnnl::algorithm::convolution_direct;

/// dnnl_sgemm; fp32 only.
class OnednnGemm final : public Gemm {
 public:
  void multiply(const ExecSpace&, DType, std::int64_t m, std::int64_t n, std::int64_t k, const MatrixOperand& a,
                const MatrixOperand& b, void* c, std::int64_t c_stride, Store store) const override {
    const dnnl_status_t status = dnnl_sgemm(letter(a), letter(b), m, n, k, 1.0f, static_cast<const float*>(a.data),
                                            a.stride, static_cast<const float*>(b.data), b.stride,
                                            store == Store::add ? 1.0f : 0.0f, static_cast<float*>(c), c_stride);
    if (status != dnnl_success) throw dnnl::error(status, "a matrix product failed");
  }

 private:
  static char letter(const MatrixOperand& operand) { return operand.transpose == Transpose::yes ? 'T' : 'N'; }
};

/// The common part of the three primitives. oneDNN orders extents as n, c, h, w, whatever the memory layout; weights
/// may have the layout that a primitive prefers (`any`).
struct Problem {
  explicit Problem(const ConvolutionShape& s)
      : type(onednn_type(s.dtype)),
        master(onednn_type(master_dtype(s.dtype))),
        x({s.n, s.c, s.h, s.w}, type, Tag::nhwc),
        y({s.n, s.filters, s.out_h(), s.out_w()}, type, Tag::nhwc),
        weight(weight_dims(s), type, Tag::any),
        plain_weight(weight_dims(s), type, plain_tag(s)),
        dweight(weight_dims(s), master, Tag::any),
        plain_dweight(weight_dims(s), master, plain_tag(s)),
        bias({s.filters}, master, Tag::a),
        strides{s.stride, s.stride},
        before{s.pad_top, s.pad_left},
        after{s.pad_bottom, s.pad_right} {}

  static Dims weight_dims(const ConvolutionShape& s) {
    if (s.groups > 1) return {s.groups, s.filters / s.groups, s.c / s.groups, s.kernel_h, s.kernel_w};
    return {s.filters, s.c, s.kernel_h, s.kernel_w};
  }

  static Tag plain_tag(const ConvolutionShape& s) { return s.groups > 1 ? Tag::goihw : Tag::oihw; }

  dnnl::memory::data_type type, master;
  Layout x, y, weight, plain_weight, dweight, plain_dweight, bias;
  Dims strides, before, after;
};

class OnednnConvolution final : public Convolution {
 public:
  explicit OnednnConvolution(const ConvolutionShape& shape,
                             std::shared_ptr<PackedWeight> weight = std::make_shared<PackedWeight>())
      : shape_(shape), weight_(std::move(weight)) {
    const Problem problem(shape);
    const Forward forward = plan_forward(problem);
    plan_backward_data(problem, forward);
    plan_backward_weight(problem, forward);
    forward_weight_ = weight_->prepare(problem.plain_weight, forward_.layout(DNNL_ARG_WEIGHTS));
    data_weight_ = weight_->prepare(problem.plain_weight, backward_data_.layout(DNNL_ARG_WEIGHTS));
  }

  std::unique_ptr<Convolution> resized(std::int64_t n) const override {
    ConvolutionShape shape = shape_;
    shape.n = n;
    return unless_refused([&] { return std::make_unique<OnednnConvolution>(shape, weight_); });
  }

  std::size_t workspace_bytes() const override {
    return std::max({forward_.scratchpad_bytes(), backward_data_.scratchpad_bytes(), backward_weight_bytes_});
  }

  void set_weight(const Tensor& weight) override { weight_->set(weight.data); }

  void forward(const ExecSpace&, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    const void* weight = weight_->get(forward_weight_);
    if (shape_.bias)
      forward_.run(
          workspace.data,
          {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_BIAS, bias.data}, {DNNL_ARG_DST, y.data}});
    else forward_.run(workspace.data, {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, y.data}});
  }

  void backward_data(const ExecSpace&, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    backward_data_.run(
        workspace.data,
        {{DNNL_ARG_DIFF_DST, dy.data}, {DNNL_ARG_WEIGHTS, weight_->get(data_weight_)}, {DNNL_ARG_DIFF_SRC, dx.data}});
  }

  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (by_product_) return by_product_->backward_weight(space, x, dy, dweight, store, workspace);
    const bool direct = !converts_dweight_ && store == Store::replace;
    void* scratchpad = static_cast<std::byte*>(workspace.data) + dweight_bytes_;
    backward_weight_.run(scratchpad, {{DNNL_ARG_SRC, x.data},
                                      {DNNL_ARG_DIFF_DST, dy.data},
                                      {DNNL_ARG_DIFF_WEIGHTS, direct ? dweight.data : workspace.data}});
    if (direct) return;
    OnednnCall& out = store == Store::add ? dweight_add_ : dweight_out_;
    out.run(scratchpad, {{DNNL_ARG_FROM, workspace.data}, {DNNL_ARG_TO, dweight.data}});
  }

 private:
  using Forward = dnnl::convolution_forward::primitive_desc;
  using BackwardData = dnnl::convolution_backward_data::primitive_desc;
  using BackwardWeight = dnnl::convolution_backward_weights::primitive_desc;

  /// oneDNN's order of preference is not always the order of speed. As measured on AVX2, its batch-reduce kernels sum
  /// over channels, and with very few channels the direct kernels are 1.5 times as fast. So they are for the data
  /// gradient with strides. For 1×1 convolutions, oneDNN's 1×1 kernels are 5 % faster.
  std::string_view forward_way() const {
    if (!onednn_uses_avx2() || shape_.groups > 1) return "";
    if (shape_.c < 4) return "jit:avx2";
    return shape_.kernel_h == 1 && shape_.kernel_w == 1 ? "jit_1x1:avx2" : "";
  }
  std::string_view backward_data_way() const {
    if (!onednn_uses_avx2() || shape_.stride == 1) return "";
    return shape_.kernel_h == 1 && shape_.kernel_w == 1 ? "jit_1x1:avx2" : "jit:avx2";
  }

  /// The product that computes the weight gradient instead of oneDNN; null: oneDNN does. On AVX2 it reads windows of
  /// the images in place if it can (window_gradient); otherwise it multiplies columns of the images if
  /// these are long enough to copy, with PortableGemm for large results and with dnnl_sgemm for results that stay in
  /// the cache.
  std::unique_ptr<Convolution> weight_gradient_by_product() const {
    static const OnednnGemm small_result;
    static const PortableGemm large_result;
    if (shape_.dtype != DType::f32 || shape_.groups != 1) return nullptr;
    // With several threads, oneDNN's 1×1 kernels add up their parts in no fixed order, even with the attribute
    // `deterministic` (3.7), so two runs would differ.
    const bool point = shape_.kernel_h == 1 && shape_.kernel_w == 1;
    if (point && ExecSpace().concurrency() > 1) return convolution_from(large_result, shape_);
    if (!onednn_uses_avx2() || (shape_.c < 32 && !has_window_gradient(shape_))) return nullptr;
    if (std::min(shape_.c, shape_.filters) < 128) return convolution_from(small_result, shape_);
    return convolution_from(large_result, shape_);
  }

  Forward plan_forward(const Problem& p) {
    const auto attributes = onednn_attributes(shape_.activation);
    const auto kind = dnnl::prop_kind::forward_training;
    const Forward description = preferring(forward_way(), [&] {
      return shape_.bias ? Forward(onednn_engine(), kind, algorithm, p.x, p.weight, p.bias, p.y, p.strides, p.before,
                                   p.after, attributes)
                         : Forward(onednn_engine(), kind, algorithm, p.x, p.weight, p.y, p.strides, p.before, p.after,
                                   attributes);
    });
    forward_ = {description,
                dnnl::convolution_forward(description),
                {{DNNL_ARG_SRC, p.x},
                 {DNNL_ARG_WEIGHTS, description.weights_desc()},
                 {DNNL_ARG_BIAS, p.bias},
                 {DNNL_ARG_DST, p.y}}};
    return description;
  }

  void plan_backward_data(const Problem& p, const Forward& hint) {
    const BackwardData description = preferring(backward_data_way(), [&] {
      return BackwardData(onednn_engine(), algorithm, p.x, p.weight, p.y, p.strides, p.before, p.after, hint,
                          onednn_attributes());
    });
    backward_data_ = {
        description,
        dnnl::convolution_backward_data(description),
        {{DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_WEIGHTS, description.weights_desc()}, {DNNL_ARG_DIFF_SRC, p.x}}};
  }

  void plan_backward_weight(const Problem& p, const Forward& hint) {
    by_product_ = weight_gradient_by_product();
    if (by_product_) {
      backward_weight_bytes_ = by_product_->workspace_bytes();
      return;
    }
    const BackwardWeight description(onednn_engine(), algorithm, p.x, p.dweight, p.y, p.strides, p.before, p.after,
                                     hint, onednn_attributes());
    const Layout inner = description.diff_weights_desc();
    backward_weight_ = {description,
                        dnnl::convolution_backward_weights(description),
                        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DIFF_DST, p.y}, {DNNL_ARG_DIFF_WEIGHTS, inner}}};
    dweight_bytes_ = align_up(inner.get_size());
    converts_dweight_ = inner != p.plain_dweight;
    dweight_out_ = OnednnCall::reorder(inner, p.plain_dweight);
    dweight_add_ = OnednnCall::reorder(inner, p.plain_dweight, true);
    backward_weight_bytes_ = dweight_bytes_ +
                             std::max({backward_weight_.scratchpad_bytes(), dweight_out_.scratchpad_bytes(),
                                       dweight_add_.scratchpad_bytes()});
  }

  ConvolutionShape shape_;
  std::shared_ptr<PackedWeight> weight_;              // shared by the convolutions of all sizes
  std::size_t forward_weight_ = 0, data_weight_ = 0;  // packings that forward_ and backward_data_ read
  OnednnCall forward_, backward_data_;
  OnednnCall backward_weight_, dweight_out_, dweight_add_;
  std::size_t dweight_bytes_ = 0;  // at the workspace's start, for the gradient in oneDNN's layout
  bool converts_dweight_ = false;
  std::unique_ptr<Convolution> by_product_;  // replaces backward_weight_
  std::size_t backward_weight_bytes_ = 0;
};

/// For 1×1 convolutions with strides, oneDNN (3.7) first gathers pixels in whole vectors. Where channels do not fill
/// these, it writes beyond its workspace.
bool writes_beyond_its_workspace(const ConvolutionShape& shape) {
  const std::int64_t vector = onednn_uses_avx2() ? 8 : 16;
  return shape.kernel_h == 1 && shape.kernel_w == 1 && shape.stride > 1 && shape.c / shape.groups % vector != 0;
}

}  // namespace

std::unique_ptr<Convolution> onednn_convolution(const ConvolutionShape& shape) {
  static const OnednnGemm gemm;
  if (!writes_beyond_its_workspace(shape)) return std::make_unique<OnednnConvolution>(shape);
  return shape.dtype == DType::f32 ? convolution_from(gemm, shape) : nullptr;
}

}  // namespace lockstep
