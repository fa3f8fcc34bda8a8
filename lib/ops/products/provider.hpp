// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

/// A library that computes the large products. Each has a folder below ops/.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const = 0;
  virtual std::string version() const = 0;
  /// Each plan is null if the provider does not support the shape or type.
  virtual std::unique_ptr<InnerProduct> inner_product(const InnerProductShape&) const { return nullptr; }
  virtual std::unique_ptr<Convolution> convolution(const ConvolutionShape&) const { return nullptr; }
  virtual std::unique_ptr<ScaledDotProductAttention> attention(const AttentionShape&) const { return nullptr; }
  virtual std::unique_ptr<RecurrentSequence> recurrent(const RecurrentShape&) const { return nullptr; }
};

enum class ProviderKind { automatic, blaslt, cudnn, miopen, onednn, kokkos_kernels, portable };
inline constexpr std::string_view provider_names[] = {"auto",   "blaslt",         "cudnn",   "miopen",
                                                      "onednn", "kokkos_kernels", "portable"};

/// The deck's `providers` section.
struct ProvidersConfig : Config {
  ProviderKind matmul = ProviderKind::automatic;
  ProviderKind convolution = ProviderKind::automatic;
  ProviderKind attention = ProviderKind::automatic;
  ProviderKind recurrent = ProviderKind::automatic;
  LibraryChoices choices;

  void describe(Fields& fields) override;
};

/// The providers of this build, fastest first; the last one is portable, which supports everything.
const std::vector<const Provider*>& providers();

/// Plan a product with the provider and the choices of the config; with `auto`, by the first provider that can. Throw
/// KeyError if the named provider is not in this build, or cannot plan the product.
std::unique_ptr<InnerProduct> plan_inner_product(const ProvidersConfig& config, const InnerProductShape& shape);
std::unique_ptr<Convolution> plan_convolution(const ProvidersConfig& config, const ConvolutionShape& shape);
std::unique_ptr<ScaledDotProductAttention> plan_attention(const ProvidersConfig& config, const AttentionShape& shape);
/// Null if the layer must be computed step by step, with products and the kernels of ops/sequence/recurrent.hpp.
std::unique_ptr<RecurrentSequence> plan_recurrent(const ProvidersConfig& config, const RecurrentShape& shape);

// 16-bit products for libraries that have none: operands are widened to fp32, multiplied and summed there by
// `provider`, and results are rounded once. Products of two 16-bit numbers are exact in fp32, so results differ from
// those of a matrix unit only by the order of the sums.

std::unique_ptr<InnerProduct> widened_inner_product(const Provider& provider, const InnerProductShape& shape);
std::unique_ptr<Convolution> widened_convolution(const Provider& provider, const ConvolutionShape& shape);

// The providers. If a build lacks the library of one, missing.cpp replaces the other files of its folder.

/// Always present; supports every shape and type.
const Provider* portable_provider();
/// Null if the build has no oneDNN.
const Provider* onednn_provider();
/// Null if the build has no Kokkos Kernels.
const Provider* kokkos_kernels_provider();
/// Inner products by cuBLASLt or hipBLASLt. Null if the build is for neither CUDA nor HIP, or found no hipBLASLt.
const Provider* blaslt_provider();
/// Convolutions in fp32 and 16 bits. Null if the build is not for HIP, or found no MIOpen.
const Provider* miopen_provider();
/// Convolutions and recurrent layers in fp32 and 16 bits, attention in 16 bits. Null if the build is not for CUDA, or
/// found no cuDNN.
const Provider* cudnn_provider();
/// cuDNN's description of the device that this process computes on (see DeviceDescription::properties). Throws
/// bad_usage if cudnn_provider() is null, and internal if there is no device.
std::string cudnn_device_properties();

}  // namespace lockstep
