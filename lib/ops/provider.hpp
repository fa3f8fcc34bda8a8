// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"
#include "ops/attention.hpp"
#include "ops/convolution.hpp"
#include "ops/inner_product.hpp"
#include "ops/recurrent_sequence.hpp"

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
/// Null if the layer must be computed step by step, with products and the kernels of ops/recurrent.hpp.
std::unique_ptr<RecurrentSequence> plan_recurrent(const ProvidersConfig& config, const RecurrentShape& shape);

}  // namespace lockstep
