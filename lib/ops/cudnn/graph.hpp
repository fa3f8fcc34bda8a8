// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>

#include "ops/products/library_products.hpp"
#include "ops/products/products.hpp"

struct cudnnContext;

namespace lockstep {

/// The device that graphs are planned for: that of this process, or a described one that need not be present.
class CudnnDevice {
 public:
  /// The device that this process plans for: described_device() if there is one, else the one that it computes on.
  /// Throws PlanError if there is none, and Error(internal) if there is one that cuDNN cannot use.
  static const CudnnDevice& current();
  /// A described device. `properties`: JSON in cuDNN's format (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  /// `capability`: 90 for 9.0. Its graphs can be planned but not run. Throws Error(bad_data) if cuDNN rejects
  /// the description.
  CudnnDevice(const std::string& properties, int capability);

  /// The device's properties in that JSON format. Throws PlanError if cuDNN does not provide them.
  std::string properties() const;
  /// Null for a described device.
  cudnnContext* handle() const;

  struct Implementation;
  const Implementation& operator*() const { return *implementation_; }

 private:
  CudnnDevice();

  std::shared_ptr<const Implementation> implementation_;
};

/// Operations that cuDNN runs as one, planned for one shape. The makers below throw PlanError if cuDNN declines.
class CudnnGraph {
 public:
  struct Implementation;
  explicit CudnnGraph(std::unique_ptr<Implementation> implementation);
  ~CudnnGraph();

  std::size_t workspace_bytes() const;
  /// cuDNN's name of the chosen engine and its settings.
  std::string engine() const;
  /// `tensors` are in the order that the maker gives. Returns at once. Throws Error(internal) if it cannot be started.
  void run(cudaStream_t stream, std::span<void* const> tensors, void* workspace) const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// The version of the loaded cuDNN, as in "9.19.0".
std::string cudnn_version();

/// Tensors: x, weight, bias (fp32; only with shape.bias), y. Activations: none and relu.
std::unique_ptr<CudnnGraph> cudnn_convolution(const CudnnDevice& device, const ConvolutionShape& shape);
struct CudnnForward {
  std::unique_ptr<CudnnGraph> graph;
  bool adds_bias;  ///< true if the graph adds the bias and applies the activation
};
/// The convolution with its bias and activation; without them if cuDNN cannot plan all together, as for three channels
/// under kernels of 16×16.
CudnnForward cudnn_forward(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: dy, weight, dx.
std::unique_ptr<CudnnGraph> cudnn_data_gradient(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: x, dy, dweight. dweight has shape.dtype, since cuDNN plans no fp32 gradients of 16-bit tensors.
std::unique_ptr<CudnnGraph> cudnn_weight_gradient(const CudnnDevice& device, const ConvolutionShape& shape);
/// Tensors: queries, keys, values (the address of the first of each in qkv), y, logsumexp.
std::unique_ptr<CudnnGraph> cudnn_attention(const CudnnDevice& device, const AttentionShape& shape);
/// Tensors: queries, keys, values, y, logsumexp, dy, dqueries, dkeys, dvalues.
std::unique_ptr<CudnnGraph> cudnn_attention_gradient(const CudnnDevice& device, const AttentionShape& shape);

/// A recurrent layer that cuDNN has planned for the device of this process; null if cuDNN declines.
std::unique_ptr<RecurrentSequence> plan_cudnn_recurrent(const RecurrentShape& shape);

}  // namespace lockstep
