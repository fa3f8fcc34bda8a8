// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "nn/layer.hpp"
#include "nn/layers/linear.hpp"
#include "nn/layers/plan_cache.hpp"
#include "ops/products/im2col.hpp"

namespace lockstep {

/// A convolution over sequences (`dimensions` = 1), images (2) or volumes (3).
struct ConvConfig : LayerConfig {
  explicit ConvConfig(int of_space) : dimensions(of_space) {}

  int dimensions;
  std::int64_t filters = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::optional<std::int64_t> padding = 0;  ///< nullopt: "same"
  std::int64_t groups = 1;
  bool bias = true;
  WeightInit start;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};
struct Conv1dConfig : ConvConfig {
  Conv1dConfig() : ConvConfig(1) {}
};
struct Conv2dConfig : ConvConfig {
  Conv2dConfig() : ConvConfig(2) {}
};
struct Conv3dConfig : ConvConfig {
  Conv3dConfig() : ConvConfig(3) {}
};

/// Cross-correlation. Images x [n, h, w, c] with weight [filters, c/groups, kernel, kernel] give y [n, h', w',
/// filters]; sequences [n, t, c] and volumes [n, d, h, w, c] have a weight with one or three kernel extents. `same`
/// pads kernel − 1 zeros in total, the smaller half first, so that h' = ⌈h / stride⌉ (for odd kernels PyTorch's padding
/// = kernel // 2).
///
/// Every convolution is planned over images. A sequence is an image of height 1. For volumes, each slice of y is
/// computed from one image, whose channels are those of all slices that the kernel covers (DepthColumnsShape); these
/// images lie in the workspace, and backward makes them again.
class Conv final : public Layer {
 public:
  explicit Conv(const ConvConfig& config) : config_(config) {}

  std::string_view type() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  bool fuse(Activation activation) override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .backward_reads_output = activation_ != Activation::none};
  }
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override { return product(n).flops(); }
  void set_weights(std::span<const Tensor> weights) override { convolutions_.set_weight(weights[0]); }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

  /// The convolution over images that is planned for n examples. Valid after `plan`.
  ConvolutionShape product(std::int64_t n) const { return shape_for(n, plan_.inputs[0]); }

 private:
  std::int64_t pad_before() const { return config_.padding.value_or((config_.kernel - 1) / 2); }
  std::int64_t pad_after() const { return config_.padding.value_or(config_.kernel / 2); }
  ConvolutionShape shape_for(std::int64_t n, const Shape& input) const;
  /// How slices of volumes become channels of images.
  DepthColumnsShape depth_for(std::int64_t n, const Shape& input) const;
  /// Takes memory from the workspace for the images that n volumes are converted to; returns an empty tensor for
  /// sequences and images.
  Tensor take_columns(ScratchAllocator& workspace, std::int64_t n) const;

  ConvConfig config_;
  Activation activation_ = Activation::none;
  PlanCache<Convolution> convolutions_;
};

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
