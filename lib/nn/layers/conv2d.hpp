// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "nn/layer.hpp"
#include "nn/plan_cache.hpp"
#include "nn/weight_init.hpp"

namespace lockstep {

struct Conv2dConfig : LayerConfig {
  std::int64_t filters = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::optional<std::int64_t> padding = 0;  ///< none: "same"
  std::int64_t groups = 1;
  bool bias = true;
  WeightInit start;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Cross-correlation of images: x [n, h, w, c], weight [filters, c/groups, kernel, kernel],
/// y [n, h', w', filters]. `same` pads kernel − 1 zeros in all, the smaller half first, so that
/// h' = ⌈h / stride⌉ (for odd kernels PyTorch's padding = kernel // 2).
class Conv2d final : public Layer {
 public:
  explicit Conv2d(const Conv2dConfig& config) : config_(config) {}

  std::string_view type() const override { return "conv2d"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  bool fuse(Activation activation) override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .backward_reads_output = activation_ != Activation::none};
  }
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override { return product(n).flops(); }
  void set_weights(std::span<const Tensor> weights) override { convolutions_.set_weight(weights[0]); }
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;

  /// What is planned for n images; asked after `plan`.
  ConvolutionShape product(std::int64_t n) const { return shape_for(n, plan_.inputs[0]); }

 private:
  ConvolutionShape shape_for(std::int64_t n, const Shape& input) const;

  Conv2dConfig config_;
  Activation activation_ = Activation::none;
  PlanCache<Convolution> convolutions_;
};

}  // namespace lockstep
