// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "nn/plan_cache.hpp"
#include "nn/weight_init.hpp"

namespace lockstep {

struct ConvTranspose2dConfig : LayerConfig {
  std::int64_t filters = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  WeightInit start;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// The transposed convolution (Zeiler et al. 2010; torch.nn.ConvTranspose2d): x [n, h, w, c], weight [c,
/// filters/groups, kernel, kernel], y [n, h', w', filters], h' = (h − 1)·stride − 2·padding + kernel + output_padding.
/// It is the adjoint of the convolution from y's shape to x's, so forward uses that convolution's product for the data
/// gradient, and backward its forward product.
class ConvTranspose2d final : public Layer {
 public:
  explicit ConvTranspose2d(const ConvTranspose2dConfig& config) : config_(config) {}

  std::string_view type() const override { return "conv_transpose2d"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  bool fuse(Activation activation) override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .backward_reads_output = activation_ != Activation::none};
  }
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override { return product(n).flops(); }
  void set_weights(std::span<const Tensor> weights) override { adjoints_.set_weight(weights[0]); }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

  /// The convolution whose adjoint is planned for n images. Valid after `plan`.
  ConvolutionShape product(std::int64_t n) const;

 private:
  ConvTranspose2dConfig config_;
  Activation activation_ = Activation::none;
  PlanCache<Convolution> adjoints_;
};

}  // namespace lockstep
