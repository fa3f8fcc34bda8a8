// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/memory_plan.hpp"
#include "ops/blaslt/api.hpp"
#include "ops/elementwise/copies.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/products/provider.hpp"

namespace lockstep {
namespace {

void expect_success(blaslt::Status status, const char* doing) {
  validate(status == blaslt::success, ExitStatus::internal, "{} cannot {}: {}", blaslt::version(), doing,
           blaslt::describe(status));
}

blaslt::Handle handle() {
  static const blaslt::Handle made = [] {  // kept for the life of the process
    blaslt::Handle handle = nullptr;
    expect_success(blaslt::create(&handle), "use the device");
    return handle;
  }();
  return made;
}

std::remove_const_t<decltype(blaslt::f32)> blaslt_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return blaslt::f64;
    case DType::bf16: return blaslt::bf16;
    case DType::f16: return blaslt::f16;
    default: return blaslt::f32;
  }
}

/// A matrix in BLASLt's column-major view: row-major matrices appear as their transposes.
struct MatrixLayout {
  DType dtype;
  std::int64_t rows, columns;  // rows are contiguous
  bool transposed = false;     // true if it is read as its transpose
};

template <class Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, blaslt::Destroy>;

Owned<blaslt::Matrix> make_layout(const MatrixLayout& of) {
  blaslt::Matrix made = nullptr;
  expect_success(blaslt::create_matrix(&made, blaslt_type(of.dtype), static_cast<std::uint64_t>(of.rows),
                                       static_cast<std::uint64_t>(of.columns), of.rows),
                 "describe a matrix");
  return Owned<blaslt::Matrix>(made);
}

/// The alignment in bytes of all columns, at most 256 (the alignment of buffers).
std::uint32_t alignment_of(const MatrixLayout& of) {
  const auto bytes = static_cast<std::uint64_t>(of.rows) * size_of(of.dtype);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(256, bytes & (~bytes + 1)));
}

/// A planned product c (+)= op(a)·op(b), followed by its epilogue.
class Matmul {
 public:
  Matmul(const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& c, bool tf32,
         blaslt::Epilogue epilogue = blaslt::no_epilogue)
      : master_(master_dtype(a.dtype)), a_(make_layout(a)), b_(make_layout(b)), c_(make_layout(c)) {
    const auto compute = a.dtype == DType::f64           ? blaslt::compute_f64
                         : a.dtype == DType::f32 && tf32 ? blaslt::compute_tf32
                                                         : blaslt::compute_f32;
    blaslt::Operation made = nullptr;
    expect_success(blaslt::create_operation(&made, compute, blaslt_type(master_)), "describe a product");
    operation_.reset(made);
    set(blaslt::transpose_a, a.transposed ? blaslt::transposed : blaslt::plain);
    set(blaslt::transpose_b, b.transposed ? blaslt::transposed : blaslt::plain);
    set(blaslt::epilogue_of, epilogue);
    if (epilogue == blaslt::bias_epilogue || epilogue == blaslt::relu_bias_epilogue)
      set(blaslt::bias_type, blaslt_type(c.dtype));  // no algorithm adds a bias of another type
    choose(alignment_of(a), alignment_of(b), alignment_of(c));
  }

  /// True if the library has an algorithm; otherwise the product must not be run.
  explicit operator bool() const { return found_; }
  std::size_t workspace_bytes() const { return algorithm_.workspaceSize; }

  void run(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& c, Store store,
           const Tensor& workspace, const void* bias = nullptr) {
    if (bias != nullptr) set(blaslt::bias_pointer, bias);
    dispatch_master(master_, [&]<class C>(C) {
      const C alpha(1), beta(store == Store::add ? 1 : 0);
      expect_success(blaslt::multiply(handle(), operation_.get(), &alpha, a.data, a_.get(), b.data, b_.get(), &beta,
                                      c.data, c_.get(), c.data, c_.get(), &algorithm_.algo, workspace.data,
                                      algorithm_.workspaceSize, stream_of(space)),
                     "multiply");
    });
  }

 private:
  template <class Value>
  void set(blaslt::Attribute attribute, const Value& value) {
    expect_success(blaslt::set_attribute(operation_.get(), attribute, &value, sizeof value), "describe a product");
  }

  void choose(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    blaslt::Preference made = nullptr;
    expect_success(blaslt::create_preference(&made), "choose an algorithm");
    const Owned<blaslt::Preference> preference(made);
    expect_success(
        blaslt::set_preference(made, blaslt::max_workspace, &max_workspace_bytes, sizeof max_workspace_bytes),
        "choose an algorithm");
    expect_success(blaslt::prefer_alignments(made, a, b, c), "choose an algorithm");
    expect_success(blaslt::prefer_exact_sums(made), "choose an algorithm");
    int count = 0;
    const auto status = blaslt::choose_algorithms(handle(), operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                                  made, 1, &algorithm_, &count);
    found_ = status == blaslt::success && count > 0;
  }

  static constexpr std::size_t max_workspace_bytes = 32 << 20;  // as NVIDIA recommends for Hopper

  DType master_;
  Owned<blaslt::Matrix> a_, b_, c_;
  Owned<blaslt::Operation> operation_;
  blaslt::Algorithm algorithm_{};
  bool found_ = false;
};

/// The three products, each in terms of transposes: yᵀ = W·xᵀ, dxᵀ = Wᵀ·dyᵀ, dWᵀ = xᵀ·dy.
struct Products {
  Matmul forward, data_gradient, weight_gradient;
  bool adds_bias = true;  // true if forward adds the bias and applies the activation

  explicit Products(const InnerProductShape& s)
      : forward({s.dtype, s.in, s.out, true}, {s.dtype, s.in, s.n}, {s.dtype, s.out, s.n}, s.choices.tf32, epilogue(s)),
        data_gradient({s.dtype, s.in, s.out}, {s.dtype, s.out, s.n}, {s.dtype, s.in, s.n}, s.choices.tf32),
        weight_gradient({s.dtype, s.in, s.n}, {s.dtype, s.out, s.n, true}, {master_dtype(s.dtype), s.in, s.out},
                        s.choices.tf32) {
    const bool whole = s.activation == Activation::none || s.activation == Activation::relu;
    if (forward && whole) return;
    adds_bias = false;
    forward = Matmul({s.dtype, s.in, s.out, true}, {s.dtype, s.in, s.n}, {s.dtype, s.out, s.n}, s.choices.tf32);
  }

  explicit operator bool() const { return forward && data_gradient && weight_gradient; }

 private:
  static blaslt::Epilogue epilogue(const InnerProductShape& s) {
    if (s.activation == Activation::relu) return s.bias ? blaslt::relu_bias_epilogue : blaslt::relu_epilogue;
    return s.bias ? blaslt::bias_epilogue : blaslt::no_epilogue;
  }
};

class BlasltInnerProduct final : public InnerProduct {
 public:
  explicit BlasltInnerProduct(const InnerProductShape& shape,
                              std::shared_ptr<Tensor> weight = std::make_shared<Tensor>())
      : shape_(shape), weight_(std::move(weight)) {
    if (shape.n > 0) products_ = std::make_unique<Products>(shape);
  }

  /// True if the library has algorithms for all three products, or if there are no examples.
  bool is_planned() const { return !products_ || *products_; }

  std::unique_ptr<InnerProduct> resized(std::int64_t n) const override {
    InnerProductShape shape = shape_;
    shape.n = n;
    auto other = std::make_unique<BlasltInnerProduct>(shape, weight_);
    return other->is_planned() ? std::move(other) : nullptr;
  }
  std::size_t workspace_bytes() const override {
    if (!products_) return 0;
    return std::max({bias_bytes() + products_->forward.workspace_bytes(), products_->data_gradient.workspace_bytes(),
                     products_->weight_gradient.workspace_bytes()});
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (!products_) return;
    if (!products_->adds_bias) {
      products_->forward.run(space, *weight_, x, y, Store::replace, workspace);
      bias_activation_forward(space, bias, shape_.activation, y);
      return;
    }
    Tensor added = bias, rest = workspace;
    if (bias_bytes() > 0) {
      added = {workspace.data, shape_.dtype, bias.shape};
      convert(space, bias, added);
      rest.data = static_cast<std::byte*>(workspace.data) + bias_bytes();
    }
    products_->forward.run(space, *weight_, x, y, Store::replace, rest, added.data);
  }
  void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) override {
    if (products_) products_->data_gradient.run(space, *weight_, dy, dx, Store::replace, workspace);
  }
  void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight, Store store,
                       const Tensor& workspace) override {
    if (products_) products_->weight_gradient.run(space, x, dy, dweight, store, workspace);
    else if (store == Store::replace) fill_zero(space, dweight);
  }

 private:
  /// Bytes at the workspace's start for the bias in the type of y; 0 if the bias has that type already.
  std::size_t bias_bytes() const {
    const bool is_rounded = shape_.bias && products_->adds_bias && shape_.dtype != master_dtype(shape_.dtype);
    return is_rounded ? align_up(static_cast<std::size_t>(shape_.out) * size_of(shape_.dtype)) : 0;
  }

  InnerProductShape shape_;
  std::unique_ptr<Products> products_;  // null: no examples
  std::shared_ptr<Tensor> weight_;
};

class BlasltProvider final : public Provider {
 public:
  std::string_view name() const override { return "blaslt"; }
  std::string version() const override { return blaslt::version(); }
  /// Null if there is no device, because `check` also plans on login nodes.
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    if (device_count() == 0) return nullptr;
    auto product = std::make_unique<BlasltInnerProduct>(shape);
    return product->is_planned() ? std::move(product) : nullptr;
  }
};

}  // namespace

const Provider* blaslt_provider() {
  static const BlasltProvider provider;
  return &provider;
}

}  // namespace lockstep
