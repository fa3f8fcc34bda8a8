// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/attention.hpp"

#include <cassert>

#include "ops/portable/attention_cpu.hpp"
#include "ops/portable/attention_gpu.hpp"

namespace lockstep {
namespace {

template <class T>
void run_forward(const ExecSpace& space, const AttentionShape& shape, const T* qkv, T* y, Compute<T>* logsumexp,
                 Compute<T>* workspace) {
  if constexpr (thread_per_element) attention_forward_on_gpu<T>(space, shape, qkv, y, logsumexp);
  else attention_forward_on_cpu<T>(space, shape, qkv, y, logsumexp, workspace);
}

template <class T>
void run_backward(const ExecSpace& space, const AttentionShape& shape, const T* qkv, const T* y,
                  const Compute<T>* logsumexp, const T* dy, T* dqkv, Compute<T>* workspace) {
  if constexpr (thread_per_element) attention_backward_on_gpu<T>(space, shape, qkv, y, logsumexp, dy, dqkv, workspace);
  else attention_backward_on_cpu<T>(space, shape, qkv, y, logsumexp, dy, dqkv, workspace);
}

template <class C>
std::int64_t workspace_elements(const AttentionShape& shape) {
  if constexpr (thread_per_element) return shape.n * shape.heads * shape.length;
  else return attention_parts(shape) * CpuAttention<C>(shape).scratch_elements();
}

}  // namespace

void attention_forward(const ExecSpace& space, const AttentionShape& shape, const Tensor& qkv, const Tensor& y,
                       const Tensor& logsumexp, const Tensor& workspace) {
  assert(workspace.bytes() >= attention_workspace_bytes(shape));
  dispatch_float(shape.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    run_forward<T>(space, shape, qkv.as<const T>(), y.as<T>(), logsumexp.as<C>(), static_cast<C*>(workspace.data));
  });
}

void attention_backward(const ExecSpace& space, const AttentionShape& shape, const Tensor& qkv, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& dy, const Tensor& dqkv, const Tensor& workspace) {
  assert(workspace.bytes() >= attention_workspace_bytes(shape));
  dispatch_float(shape.dtype, [&]<class T>(T) {
    using C = Compute<T>;
    run_backward<T>(space, shape, qkv.as<const T>(), y.as<const T>(), logsumexp.as<const C>(), dy.as<const T>(),
                    dqkv.as<T>(), static_cast<C*>(workspace.data));
  });
}

std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return dispatch_master(master_dtype(shape.dtype), [&]<class C>(C) {
    return static_cast<std::size_t>(workspace_elements<C>(shape)) * sizeof(C);
  });
}

}  // namespace lockstep
