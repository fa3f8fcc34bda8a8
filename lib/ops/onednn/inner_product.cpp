// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <string_view>

#include "ops/gemm_products.hpp"
#include "ops/onednn/call.hpp"
#include "ops/onednn/packed_weight.hpp"
#include "ops/onednn/products.hpp"
#include "ops/portable/gemm.hpp"

namespace lockstep {
namespace {

using Layout = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// A row-major matrix, or (`ba`) the transpose of one.
Layout matrix(std::int64_t rows, std::int64_t columns, DType dtype, Tag tag = Tag::ab) {
  return {{rows, columns}, onednn_type(dtype), tag};
}

/// How oneDNN multiplies: `first` is what it would choose itself (on AVX2 a packed or unpacked "gemm"), `blocked` its
/// batch-reduce kernels, which copy the second matrix into blocks, `packed` its "gemm", which copies both into panels
/// (beside a plain loop of that name, which is not wanted).
enum class MatmulKernel { first, blocked, packed };
constexpr std::string_view name_of(MatmulKernel kernel) {
  return kernel == MatmulKernel::blocked ? "brg" : kernel == MatmulKernel::packed ? "gemm:jit" : "";
}

/// With AVX-512, fp32 products of transformers reach 75 to 92 % of the peak in panels, 70 to 83 % in blocks, which
/// oneDNN would choose.
bool prefers_panels(const InnerProductShape& shape) { return shape.dtype == DType::f32 && !onednn_uses_avx2(); }

/// y = x·Wᵀ has to copy a transposed W anyway; blocked copies are 3 to 8 % faster on AVX2. Panels need another pass
/// over y for the bias, and lose by that what they gain.
MatmulKernel forward_kernel(const InnerProductShape& shape) {
  return prefers_panels(shape) && !shape.bias ? MatmulKernel::packed : MatmulKernel::blocked;
}

/// dx = dy·W: "gemm" reads W where it stands, on AVX2, 96 % of the peak against 85 %. But when rows of W lie a
/// multiple of 2 KiB apart, a column of them falls on a few cache sets, and it drops to 44 %.
MatmulKernel backward_data_kernel(const InnerProductShape& shape) {
  if (prefers_panels(shape)) return MatmulKernel::packed;
  return shape.in % 512 == 0 ? MatmulKernel::blocked : MatmulKernel::first;
}

/// Rows from which on dW = dyᵀ·x is slow in panels where those of dy lie a multiple of 2 KiB apart, unless there are
/// many columns of x to share a copy of dyᵀ; and from about which on our own product reaches 80 % of an AVX2 core,
/// oneDNN's 40 to 90 %.
constexpr std::int64_t long_columns = 512;

MatmulKernel backward_weight_kernel(const InnerProductShape& shape) {
  const bool is_slow = shape.n > long_columns && shape.out % 512 == 0 && shape.in < shape.out;
  return prefers_panels(shape) && !is_slow ? MatmulKernel::packed : MatmulKernel::first;
}

using Description = dnnl::matmul::primitive_desc;

template <class Describe>
OnednnCall matmul(MatmulKernel kernel, Describe describe) {
  const Description description = preferring(name_of(kernel), describe);
  const dnnl::matmul primitive(description);
  if (description.bias_desc().get_size() > 0)
    return {description,
            primitive,
            {{DNNL_ARG_SRC, description.src_desc()},
             {DNNL_ARG_WEIGHTS, description.weights_desc()},
             {DNNL_ARG_BIAS, description.bias_desc()},
             {DNNL_ARG_DST, description.dst_desc()}}};
  return {description,
          primitive,
          {{DNNL_ARG_SRC, description.src_desc()},
           {DNNL_ARG_WEIGHTS, description.weights_desc()},
           {DNNL_ARG_DST, description.dst_desc()}}};
}

class OnednnInnerProduct final : public InnerProduct {
 public:
  explicit OnednnInnerProduct(const InnerProductShape& shape,
                              std::shared_ptr<PackedWeight> given_weight = std::make_shared<PackedWeight>())
      : shape_(shape), weight_(std::move(given_weight)) {
    const DType type = shape.dtype, master = master_dtype(type);
    const Layout x = matrix(shape.n, shape.in, type), y = matrix(shape.n, shape.out, type);
    const Layout weight = matrix(shape.out, shape.in, type), dweight = matrix(shape.out, shape.in, master);
    const Layout weight_transposed = matrix(shape.in, shape.out, type, Tag::ba);
    const Layout dy_transposed = matrix(shape.out, shape.n, type, Tag::ba), bias = matrix(1, shape.out, master);
    const dnnl::engine& engine = onednn_engine();
    const auto plain = onednn_attributes(), activated = onednn_attributes(shape.activation);
    // Rearranged only where it is used many times; else oneDNN does that piece by piece in its products, which is
    // cheaper. Each batch size asks for its own layout, mostly the same one: given a blocked layout that it has not
    // chosen itself, several threads of oneDNN 3.7 compute wrong numbers with AVX2, and one takes its reference loops.
    const bool packs = shape.uses > 1;
    const Layout forward_wanted = packs ? matrix(shape.in, shape.out, type, Tag::any) : weight_transposed;
    const Layout backward_wanted = packs ? matrix(shape.out, shape.in, type, Tag::any) : weight;
    const auto describe_forward = [&] {
      return shape.bias ? Description(engine, x, forward_wanted, bias, y, activated)
                        : Description(engine, x, forward_wanted, y, activated);
    };
    const auto describe_backward = [&] { return Description(engine, y, backward_wanted, x, plain); };
    forward_ = matmul(packs ? MatmulKernel::blocked : forward_kernel(shape), describe_forward);
    backward_data_ = matmul(packs ? MatmulKernel::blocked : backward_data_kernel(shape), describe_backward);
    if (shape.dtype == DType::f32 && onednn_uses_avx2() && shape.n >= long_columns) {
      static const PortableGemm gemm;
      by_product_ = inner_product_from(gemm, shape);
    }
    if (!by_product_) {
      const MatmulKernel kernel = backward_weight_kernel(shape);
      backward_weight_ = matmul(kernel, [&] { return Description(engine, dy_transposed, x, dweight, plain); });
      backward_weight_add_ = matmul(
          kernel, [&] { return Description(engine, dy_transposed, x, dweight, onednn_attributes_add()); });
    }
    forward_weight_ = weight_->prepare(weight_transposed, forward_.layout(DNNL_ARG_WEIGHTS));
    data_weight_ = weight_->prepare(weight, backward_data_.layout(DNNL_ARG_WEIGHTS));
  }

  std::unique_ptr<InnerProduct> resized(std::int64_t n) const override {
    InnerProductShape shape = shape_;
    shape.n = n;
    return unless_refused([&] { return std::make_unique<OnednnInnerProduct>(shape, weight_); });
  }

  std::size_t workspace_bytes() const override {
    return std::max({forward_.scratchpad_bytes(), backward_data_.scratchpad_bytes(),
                     backward_weight_.scratchpad_bytes(), backward_weight_add_.scratchpad_bytes(),
                     by_product_ ? by_product_->workspace_bytes() : 0});
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
        {{DNNL_ARG_SRC, dy.data}, {DNNL_ARG_WEIGHTS, weight_->get(data_weight_)}, {DNNL_ARG_DST, dx.data}});
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (by_product_) return by_product_->backward_weight(space, x, dy, dweight, store, workspace);
    OnednnCall& call = store == Store::add ? backward_weight_add_ : backward_weight_;
    call.run(workspace.data, {{DNNL_ARG_SRC, dy.data}, {DNNL_ARG_WEIGHTS, x.data}, {DNNL_ARG_DST, dweight.data}});
  }

 private:
  InnerProductShape shape_;
  std::shared_ptr<PackedWeight> weight_;              // of the products of all sizes
  std::size_t forward_weight_ = 0, data_weight_ = 0;  // in the layouts that forward_ and backward_data_ want
  OnednnCall forward_, backward_data_, backward_weight_, backward_weight_add_;
  std::unique_ptr<InnerProduct> by_product_;  // instead of backward_weight_
};

}  // namespace

std::unique_ptr<InnerProduct> onednn_inner_product(const InnerProductShape& shape) {
  return std::make_unique<OnednnInnerProduct>(shape);
}

}  // namespace lockstep
