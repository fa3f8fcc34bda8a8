// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <string_view>

#include "ops/onednn/call.hpp"
#include "ops/portable/products.hpp"
#include "ops/products/gemm.hpp"

namespace lockstep {
namespace {

using Layout = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// A row-major matrix, or the transpose of one if the tag is `ba`.
Layout matrix(std::int64_t rows, std::int64_t columns, DType dtype, Tag tag = Tag::ab) {
  return {{rows, columns}, onednn_type(dtype), tag};
}

/// oneDNN's matmul kernels. `first`: its own choice (on AVX2 a packed or unpacked "gemm"). `blocked`: its batch-reduce
/// kernels, which copy the second matrix into blocks. `packed`: its "gemm", which copies both matrices into panels (but
/// not the plain loop of the same name).
enum class MatmulKernel { first, blocked, packed };
constexpr std::string_view name_of(MatmulKernel kernel) {
  return kernel == MatmulKernel::blocked ? "brg" : kernel == MatmulKernel::packed ? "gemm:jit" : "";
}

/// With AVX-512, fp32 products of transformers reach 75 to 92 % of the peak with panels, and 70 to 83 % with blocks,
/// which are oneDNN's own choice.
bool prefers_panels(const InnerProductShape& shape) { return shape.dtype == DType::f32 && !onednn_uses_avx2(); }

/// y = x·Wᵀ has to copy a transposed W in any case; blocked copies are 3 to 8 % faster on AVX2. Panels need a second
/// pass over y for the bias, which cancels their gain.
MatmulKernel forward_kernel(const InnerProductShape& shape) {
  return prefers_panels(shape) && !shape.bias ? MatmulKernel::packed : MatmulKernel::blocked;
}

/// dx = dy·W: on AVX2, "gemm" reads W in place and reaches 96 % of the peak, against 85 %. But if rows of W are a
/// multiple of 2 KiB apart, its columns map to a few cache sets, and it drops to 44 %.
MatmulKernel backward_data_kernel(const InnerProductShape& shape) {
  if (prefers_panels(shape)) return MatmulKernel::packed;
  return shape.in % 512 == 0 ? MatmulKernel::blocked : MatmulKernel::first;
}

/// Number of rows from which on dW = dyᵀ·x is slow with panels if rows of dy are a multiple of 2 KiB apart, unless x
/// has many columns to share a copy of dyᵀ. Also about the number from which on PortableGemm reaches 80 % of an AVX2
/// core, and oneDNN 40 to 90 %.
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
    // Weights are rearranged only if they are used many times; otherwise oneDNN rearranges them piece by piece within
    // its products, which is cheaper. Each batch size asks for its own layout, which is usually the same: given a
    // blocked layout that it has not chosen itself, oneDNN 3.7 computes wrong numbers with AVX2 and several threads,
    // and uses its reference loops with one.
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
  std::shared_ptr<PackedWeight> weight_;              // shared by the products of all sizes
  std::size_t forward_weight_ = 0, data_weight_ = 0;  // packings that forward_ and backward_data_ read
  OnednnCall forward_, backward_data_, backward_weight_, backward_weight_add_;
  std::unique_ptr<InnerProduct> by_product_;  // replaces backward_weight_
};

}  // namespace

std::unique_ptr<InnerProduct> onednn_inner_product(const InnerProductShape& shape) {
  return std::make_unique<OnednnInnerProduct>(shape);
}

}  // namespace lockstep
