// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/products.hpp"

#include <cassert>

#include "ops/portable/attention_cpu.hpp"
#include "ops/portable/attention_gpu.hpp"

namespace lockstep {
namespace {

/// The address of the keys, which the values follow.
template <class T>
T* keys_of(const AttentionShape& shape, const Tensor& q, const Tensor& kv) {
  return shape.memory > 0 ? kv.as<T>() : q.as<T>() + shape.width();
}

template <class T>
void run_forward(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, T* y,
                 Compute<T>* logsumexp, Compute<T>* workspace) {
  if constexpr (thread_per_element) attention_forward_on_gpu<T>(space, shape, q, k, y, logsumexp);
  else attention_forward_on_cpu<T>(space, shape, q, k, y, logsumexp, workspace);
}

template <class T>
void run_backward(const ExecSpace& space, const AttentionShape& shape, const T* q, const T* k, const T* y,
                  const Compute<T>* logsumexp, const T* dy, T* dq, T* dk, Compute<T>* workspace) {
  if constexpr (thread_per_element)
    attention_backward_on_gpu<T>(space, shape, q, k, y, logsumexp, dy, dq, dk, workspace);
  else attention_backward_on_cpu<T>(space, shape, q, k, y, logsumexp, dy, dq, dk, workspace);
}

template <class C>
std::int64_t workspace_elements(const AttentionShape& shape) {
  if constexpr (thread_per_element) return shape.n * shape.heads * shape.length;
  else return attention_parts(shape) * CpuAttention<C>(shape).scratch_elements();
}

class PortableAttention final : public ScaledDotProductAttention {
 public:
  explicit PortableAttention(const AttentionShape& shape) : shape_(shape) {}

  std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const override {
    auto other = std::make_unique<PortableAttention>(*this);
    other->shape_.n = n;
    return other;
  }
  std::size_t workspace_bytes() const override {
    return dispatch_master(master_dtype(shape_.dtype), [&]<class C>(C) {
      return static_cast<std::size_t>(workspace_elements<C>(shape_)) * sizeof(C);
    });
  }
  void forward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y, const Tensor& logsumexp,
               const Tensor& workspace) override {
    assert(workspace.bytes() >= workspace_bytes());
    dispatch_float(shape_.dtype, [&]<class T>(T) {
      using C = Compute<T>;
      run_forward<T>(space, shape_, q.as<const T>(), keys_of<const T>(shape_, q, kv), y.as<T>(), logsumexp.as<C>(),
                     static_cast<C*>(workspace.data));
    });
  }
  void backward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y, const Tensor& logsumexp,
                const Tensor& dy, const Tensor& dq, const Tensor& dkv, const Tensor& workspace) override {
    assert(workspace.bytes() >= workspace_bytes());
    dispatch_float(shape_.dtype, [&]<class T>(T) {
      using C = Compute<T>;
      run_backward<T>(space, shape_, q.as<const T>(), keys_of<const T>(shape_, q, kv), y.as<const T>(),
                      logsumexp.as<const C>(), dy.as<const T>(), dq.as<T>(), keys_of<T>(shape_, dq, dkv),
                      static_cast<C*>(workspace.data));
    });
  }

 private:
  AttentionShape shape_;
};

}  // namespace

std::unique_ptr<ScaledDotProductAttention> portable_attention(const AttentionShape& shape) {
  return std::make_unique<PortableAttention>(shape);
}

}  // namespace lockstep
