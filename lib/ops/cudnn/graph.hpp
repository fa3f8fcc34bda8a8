// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>

#include "ops/attention.hpp"
#include "ops/convolution.hpp"
#include "ops/library_plans.hpp"

struct cudnnContext;

namespace lockstep {

/// What graphs are planned for: the device of this process, or one that need not be there.
class CudnnDevice {
 public:
  /// The one that this process plans for: the described_device(), else the one that it computes on. Throws PlanError
  /// when there is none.
  static const CudnnDevice& current();
  /// `properties`: JSON as cuDNN writes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); `capability`: 90 for 9.0. Its
  /// graphs can be planned and not be run. Throws PlanError when cuDNN does not take them.
  CudnnDevice(const std::string& properties, int capability);

  /// JSON, as the constructor takes it. Throws PlanError when cuDNN does not tell.
  std::string properties() const;
  /// Null of a device that need not be there.
  cudnnContext* handle() const;

  struct Implementation;
  const Implementation& operator*() const { return *implementation_; }

 private:
  CudnnDevice();

  std::shared_ptr<const Implementation> implementation_;
};

/// Operations that cuDNN runs as one, planned for one shape. Makers below throw PlanError for what it declines.
class CudnnGraph {
 public:
  struct Implementation;
  explicit CudnnGraph(std::unique_ptr<Implementation> implementation);
  ~CudnnGraph();

  std::size_t workspace_bytes() const;
  /// cuDNN's name of the engine that was chosen, and of its settings.
  std::string engine() const;
  /// `tensors` in the order that the maker says. Returns at once. Throws Error(internal) when it cannot be started.
  void run(cudaStream_t stream, std::span<void* const> tensors, void* workspace) const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// The version of the cuDNN that is loaded, as "9.19.0".
std::string cudnn_version();

/// Tensors: x, weight, bias (fp32; only with shape.bias), y. Activations: none and relu.
std::unique_ptr<CudnnGraph> cudnn_convolution(const CudnnDevice& device, const ConvolutionShape& shape);
struct CudnnForward {
  std::unique_ptr<CudnnGraph> graph;
  bool adds_bias;  ///< and applies the activation
};
/// The convolution with its bias and activation, else, where cuDNN does not plan these together, by itself: of three
/// channels under kernels of 16×16, for one.
CudnnForward cudnn_forward(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: dy, weight, dx.
std::unique_ptr<CudnnGraph> cudnn_data_gradient(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: x, dy, dweight. This is of shape.dtype: cuDNN plans no fp32 gradients of 16-bit tensors.
std::unique_ptr<CudnnGraph> cudnn_weight_gradient(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: queries, keys, values (each where the first of them lies in qkv), y, logsumexp.
std::unique_ptr<CudnnGraph> cudnn_attention(const CudnnDevice& device, const AttentionShape& shape);
/// Tensors: queries, keys, values, y, logsumexp, dy, dqueries, dkeys, dvalues.
std::unique_ptr<CudnnGraph> cudnn_attention_gradient(const CudnnDevice& device, const AttentionShape& shape);

}  // namespace lockstep
