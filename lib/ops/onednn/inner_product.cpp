// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "ops/onednn/call.hpp"
#include "ops/onednn/products.hpp"

namespace lockstep {
namespace {

using Layout = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// A row-major matrix, or (`ba`) the transpose of one.
Layout matrix(std::int64_t rows, std::int64_t columns, Tag tag = Tag::ab) {
  return {{rows, columns}, dnnl::memory::data_type::f32, tag};
}

/// How oneDNN multiplies: `first` is what it would choose itself (on AVX2 a packed or unpacked "gemm"),
/// `blocked` its batch-reduce kernels, which copy the second matrix into blocks.
enum class Way { first, blocked };

/// y = x·Wᵀ has to copy a transposed W anyway; blocked copies are 3 to 8 % faster on AVX2.
constexpr Way forward_way = Way::blocked;

/// dx = dy·W: "gemm" reads W where it stands, 96 % of the peak against 85 %. But when rows of W lie a
/// multiple of 2 KiB apart, a column of them falls on a few cache sets, and it drops to 44 %.
Way backward_data_way(std::int64_t in) { return in % 512 == 0 ? Way::blocked : Way::first; }

using Description = dnnl::matmul::primitive_desc;

template <class Describe>
OnednnCall matmul(Way way, Describe describe) {
  const Description description = way == Way::blocked ? preferring("brg", describe) : describe();
  const dnnl::matmul primitive(description);
  if (description.bias_desc().get_size() > 0)
    return {description, primitive,
            {{DNNL_ARG_SRC, description.src_desc()}, {DNNL_ARG_WEIGHTS, description.weights_desc()},
             {DNNL_ARG_BIAS, description.bias_desc()}, {DNNL_ARG_DST, description.dst_desc()}}};
  return {description, primitive,
          {{DNNL_ARG_SRC, description.src_desc()}, {DNNL_ARG_WEIGHTS, description.weights_desc()},
           {DNNL_ARG_DST, description.dst_desc()}}};
}

class OnednnInnerProduct final : public InnerProduct {
 public:
  explicit OnednnInnerProduct(const InnerProductShape& shape) : bias_(shape.bias) {
    const Layout x = matrix(shape.n, shape.in), y = matrix(shape.n, shape.out);
    const Layout weight = matrix(shape.out, shape.in);
    const Layout weight_transposed = matrix(shape.in, shape.out, Tag::ba);
    const Layout dy_transposed = matrix(shape.out, shape.n, Tag::ba);
    const dnnl::engine& engine = onednn_engine();
    const auto plain = onednn_attributes(), activated = onednn_attributes(shape.activation == Activation::relu);
    forward_ = matmul(forward_way, [&] {
      return shape.bias ? Description(engine, x, weight_transposed, matrix(1, shape.out), y, activated)
                        : Description(engine, x, weight_transposed, y, activated);
    });
    backward_data_ = matmul(backward_data_way(shape.in), [&] { return Description(engine, y, weight, x, plain); });
    backward_weight_ = matmul(Way::first, [&] { return Description(engine, dy_transposed, x, weight, plain); });
    backward_weight_add_ =
        matmul(Way::first, [&] { return Description(engine, dy_transposed, x, weight, onednn_attributes_add()); });
  }

  std::size_t workspace_bytes() const override {
    return std::max({forward_.scratchpad_bytes(), backward_data_.scratchpad_bytes(),
                     backward_weight_.scratchpad_bytes(), backward_weight_add_.scratchpad_bytes()});
  }

  void forward(const ExecSpace&, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (bias_)
      forward_.run(workspace.data, {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_WEIGHTS, weight.data}, {DNNL_ARG_BIAS, bias.data}, {DNNL_ARG_DST, y.data}});
    else
      forward_.run(workspace.data, {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_WEIGHTS, weight.data}, {DNNL_ARG_DST, y.data}});
  }
  void backward_data(const ExecSpace&, const Tensor& dy, const Tensor& weight, const Tensor& dx,
                     const Tensor& workspace) override {
    backward_data_.run(workspace.data, {{DNNL_ARG_SRC, dy.data}, {DNNL_ARG_WEIGHTS, weight.data}, {DNNL_ARG_DST, dx.data}});
  }
  void backward_weight(const ExecSpace&, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    OnednnCall& call = store == Store::add ? backward_weight_add_ : backward_weight_;
    call.run(workspace.data, {{DNNL_ARG_SRC, dy.data}, {DNNL_ARG_WEIGHTS, x.data}, {DNNL_ARG_DST, dweight.data}});
  }

 private:
  bool bias_;
  OnednnCall forward_, backward_data_, backward_weight_, backward_weight_add_;
};

}  // namespace

std::unique_ptr<InnerProduct> onednn_inner_product(const InnerProductShape& shape) {
  return std::make_unique<OnednnInnerProduct>(shape);
}

}  // namespace lockstep
