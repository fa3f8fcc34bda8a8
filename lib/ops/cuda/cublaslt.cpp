// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/error.hpp"
#include "ops/bias.hpp"
#include "ops/cuda/provider.hpp"

namespace lockstep {
namespace {

void expect_success(cublasStatus_t status, const char* doing) {
  validate(status == CUBLAS_STATUS_SUCCESS, ExitStatus::internal, "cuBLASLt cannot {}: {}", doing,
           cublasLtGetStatusString(status));
}

cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {  // for as long as the process lives
    cublasLtHandle_t handle = nullptr;
    expect_success(cublasLtCreate(&handle), "use the device");
    return handle;
  }();
  return made;
}

cudaDataType_t cublas_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

/// A matrix as cuBLASLt sees it, column by column: ours, row by row, are their own transposes.
struct Layout {
  DType dtype;
  std::int64_t rows, columns;  // rows lie side by side
  bool transposed = false;     // when it is read
};

struct Destroy {
  void operator()(cublasLtMatmulDesc_t it) const { cublasLtMatmulDescDestroy(it); }
  void operator()(cublasLtMatrixLayout_t it) const { cublasLtMatrixLayoutDestroy(it); }
  void operator()(cublasLtMatmulPreference_t it) const { cublasLtMatmulPreferenceDestroy(it); }
};
template <class Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;

Owned<cublasLtMatrixLayout_t> make_layout(const Layout& of) {
  cublasLtMatrixLayout_t made = nullptr;
  expect_success(cublasLtMatrixLayoutCreate(&made, cublas_type(of.dtype), static_cast<std::uint64_t>(of.rows),
                                            static_cast<std::uint64_t>(of.columns), of.rows),
                 "describe a matrix");
  return Owned<cublasLtMatrixLayout_t>(made);
}

/// Bytes of which any column's address is a multiple, at most 256 (to which buffers are aligned).
std::uint32_t alignment_of(const Layout& of) {
  const auto bytes = static_cast<std::uint64_t>(of.rows) * size_of(of.dtype);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(256, bytes & (~bytes + 1)));
}

/// c (+)= op(a)·op(b), with what follows it, planned.
class Matmul {
 public:
  /// Without an epilogue every shape has an algorithm; with one, see `operator bool`.
  Matmul(const Layout& a, const Layout& b, const Layout& c, bool tf32,
         cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT)
      : master_(master_dtype(a.dtype)), a_(make_layout(a)), b_(make_layout(b)), c_(make_layout(c)) {
    const cublasComputeType_t compute = a.dtype == DType::f64           ? CUBLAS_COMPUTE_64F
                                        : a.dtype == DType::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                        : CUBLAS_COMPUTE_32F;
    cublasLtMatmulDesc_t made = nullptr;
    expect_success(cublasLtMatmulDescCreate(&made, compute, cublas_type(master_)), "describe a product");
    operation_.reset(made);
    set(CUBLASLT_MATMUL_DESC_TRANSA, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cublas_type(master_));
    choose(alignment_of(a), alignment_of(b), alignment_of(c));
  }

  explicit operator bool() const { return found_; }
  std::size_t workspace_bytes() const { return algorithm_.workspaceSize; }

  void run(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& c, Store store,
           const Tensor& workspace, const void* bias = nullptr) {
    if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    dispatch_master(master_, [&]<class C>(C) {
      const C alpha(1), beta(store == Store::add ? 1 : 0);
      expect_success(cublasLtMatmul(handle(), operation_.get(), &alpha, a.data, a_.get(), b.data, b_.get(), &beta,
                                    c.data, c_.get(), c.data, c_.get(), &algorithm_.algo, workspace.data,
                                    algorithm_.workspaceSize, space.cuda_stream()),
                     "multiply");
    });
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    expect_success(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof value),
                   "describe a product");
  }

  void choose(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    cublasLtMatmulPreference_t made = nullptr;
    expect_success(cublasLtMatmulPreferenceCreate(&made), "choose an algorithm");
    const Owned<cublasLtMatmulPreference_t> preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      expect_success(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
                     "choose an algorithm");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, max_workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c);
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), operation_.get(), a_.get(), b_.get(),
                                                                 c_.get(), c_.get(), made, 1, &algorithm_, &count);
    found_ = status == CUBLAS_STATUS_SUCCESS && count > 0;
  }

  static constexpr std::size_t max_workspace_bytes = 32 << 20;  // what NVIDIA advises for Hopper

  DType master_;
  Owned<cublasLtMatrixLayout_t> a_, b_, c_;
  Owned<cublasLtMatmulDesc_t> operation_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
  bool found_ = false;
};

/// With every matrix seen as its transpose: yᵀ = W·xᵀ, dxᵀ = Wᵀ·dyᵀ, dWᵀ = xᵀ·dy.
struct Products {
  Matmul forward, data_gradient, weight_gradient;
  bool adds_bias = true;  // forward does, and applies the activation

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
  static cublasLtEpilogue_t epilogue(const InnerProductShape& s) {
    if (s.activation == Activation::relu) return s.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
};

class CublasLtInnerProduct final : public InnerProduct {
 public:
  explicit CublasLtInnerProduct(const InnerProductShape& shape,
                                std::shared_ptr<Tensor> weight = std::make_shared<Tensor>())
      : shape_(shape), weight_(std::move(weight)) {
    if (shape.n > 0) products_ = std::make_unique<Products>(shape);
  }

  /// Whether cuBLASLt has algorithms for all three.
  bool is_planned() const { return products_ && *products_; }

  std::unique_ptr<InnerProduct> resized(std::int64_t n) const override {
    InnerProductShape shape = shape_;
    shape.n = n;
    return std::make_unique<CublasLtInnerProduct>(shape, weight_);
  }
  std::size_t workspace_bytes() const override {
    if (!products_) return 0;
    return std::max({products_->forward.workspace_bytes(), products_->data_gradient.workspace_bytes(),
                     products_->weight_gradient.workspace_bytes()});
  }
  void set_weight(const Tensor& weight) override { *weight_ = weight; }

  void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
               const Tensor& workspace) override {
    if (!products_) return;
    const bool adds_bias = products_->adds_bias;
    products_->forward.run(space, *weight_, x, y, Store::replace, workspace, adds_bias ? bias.data : nullptr);
    if (!adds_bias) bias_activation_forward(space, bias, shape_.activation, y);
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
  InnerProductShape shape_;
  std::unique_ptr<Products> products_;  // null: no examples
  std::shared_ptr<Tensor> weight_;
};

class CublasLtProvider final : public Provider {
 public:
  std::string_view name() const override { return "cublaslt"; }
  std::string version() const override {
    const std::size_t version = cublasLtGetVersion();
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  std::unique_ptr<InnerProduct> inner_product(const InnerProductShape& shape) const override {
    auto product = std::make_unique<CublasLtInnerProduct>(shape);
    return product->is_planned() ? std::move(product) : nullptr;
  }
};

}  // namespace

const Provider* cublaslt_provider() {
  static const CublasLtProvider provider;
  return &provider;
}

}  // namespace lockstep
