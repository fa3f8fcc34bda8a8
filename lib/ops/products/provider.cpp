// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include "base/error.hpp"

namespace lockstep {
namespace {

// Fastest first, as `lockstep bench` measures them (Zen 3, fp32, the large products of the presets): oneDNN 85 to 95 %
// of the multiply-add peak, OpenBLAS through Kokkos Kernels 77 to 86 %, portable 72 to 87 %; oneDNN's direct
// convolutions 78 to 106 %, because they need no im2col, the other two 62 to 75 %. On an H200, cuBLASLt is far faster
// than portable (perf/results/h200.md). A provider declines what it does not support.
constexpr ProviderKind fastest_first[] = {ProviderKind::blaslt, ProviderKind::cudnn,          ProviderKind::miopen,
                                          ProviderKind::onednn, ProviderKind::kokkos_kernels, ProviderKind::portable};

/// Null if this build lacks the provider.
const Provider* find(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::blaslt: return blaslt_provider();
    case ProviderKind::cudnn: return cudnn_provider();
    case ProviderKind::miopen: return miopen_provider();
    case ProviderKind::onednn: return onednn_provider();
    case ProviderKind::kokkos_kernels: return kokkos_kernels_provider();
    case ProviderKind::portable: return portable_provider();
    case ProviderKind::automatic: break;
  }
  return nullptr;
}

/// `plan_with(provider)` returns the plan, or null if that provider does not support the shape.
template <class PlanWith>
auto plan(std::string_view key, ProviderKind kind, DType dtype, PlanWith plan_with)
    -> decltype(plan_with(*portable_provider())) {
  if (kind == ProviderKind::automatic) {
    for (const ProviderKind candidate : fastest_first) {
      const Provider* provider = find(candidate);
      if (provider == nullptr) continue;
      if (auto planned = plan_with(*provider)) return planned;
    }
    throw Error(ExitStatus::internal, "no provider supports an operation that portable must support");
  }

  const auto name = provider_names[static_cast<std::size_t>(kind)];
  const Provider* provider = find(kind);
  const std::string path = fmt::format("providers.{}", key);
  validate_key(
      provider != nullptr, path,
      "{} is not in this build; choose auto, or build with it (`lockstep info` lists the providers of this build)",
      name);
  auto planned = plan_with(*provider);
  validate_key(planned != nullptr, path,
               "{} does not support an operation of this model in {}; choose auto or portable", name, name_of(dtype));
  return planned;
}

}  // namespace

void ProvidersConfig::describe(Fields& fields) {
  fields.choice("matmul", matmul, provider_names, "library for matrix products; auto: the fastest in this build");
  fields.choice("convolution", convolution, provider_names,
                "library for convolutions; auto: the fastest in this build");
  fields.choice("attention", attention, provider_names, "library for attention; auto: the fastest in this build");
  fields.choice("recurrent", recurrent, provider_names,
                "library that computes an lstm or gru layer as a whole; portable: step by step; auto: by the fastest "
                "library in this build, or step by step if there is none");
  fields.boolean("tf32", choices.tf32,
                 "whether GPUs may round the operands of fp32 products to TF32 (10 bits of mantissa), which is faster");
  fields.boolean("deterministic", choices.deterministic,
                 "whether libraries are limited to algorithms that give the same bits in every run");
}

const std::vector<const Provider*>& providers() {
  static const std::vector<const Provider*> present = [] {
    std::vector<const Provider*> found;
    for (const ProviderKind kind : fastest_first)
      if (const Provider* provider = find(kind)) found.push_back(provider);
    return found;
  }();
  return present;
}

// A rank without examples in a step uses the portable provider, because not every library supports empty products.

std::unique_ptr<InnerProduct> plan_inner_product(const ProvidersConfig& config, const InnerProductShape& wanted) {
  InnerProductShape shape = wanted;
  shape.choices = config.choices;
  if (shape.n == 0) return portable_provider()->inner_product(shape);
  return plan("matmul", config.matmul, shape.dtype,
              [&](const Provider& provider) { return provider.inner_product(shape); });
}

std::unique_ptr<Convolution> plan_convolution(const ProvidersConfig& config, const ConvolutionShape& wanted) {
  ConvolutionShape shape = wanted;
  shape.choices = config.choices;
  if (shape.n == 0) return portable_provider()->convolution(shape);
  return plan("convolution", config.convolution, shape.dtype,
              [&](const Provider& provider) { return provider.convolution(shape); });
}

std::unique_ptr<ScaledDotProductAttention> plan_attention(const ProvidersConfig& config, const AttentionShape& wanted) {
  AttentionShape shape = wanted;
  shape.choices = config.choices;
  if (shape.n == 0) return portable_provider()->attention(shape);
  return plan("attention", config.attention, shape.dtype,
              [&](const Provider& provider) { return provider.attention(shape); });
}

std::unique_ptr<RecurrentSequence> plan_recurrent(const ProvidersConfig& config, const RecurrentShape& wanted) {
  RecurrentShape shape = wanted;
  shape.choices = config.choices;
  if (config.recurrent == ProviderKind::portable) return nullptr;
  if (config.recurrent == ProviderKind::automatic) {
    for (const Provider* provider : providers())
      if (auto planned = provider->recurrent(shape)) return planned;
    return nullptr;
  }
  return plan("recurrent", config.recurrent, shape.dtype,
              [&](const Provider& provider) { return provider.recurrent(shape); });
}

}  // namespace lockstep
