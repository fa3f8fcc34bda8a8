// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "nn/layer.hpp"
#include "ops/pooling.hpp"

namespace lockstep {

struct PoolConfig : LayerConfig {
  std::int64_t kernel = 0;
  std::optional<std::int64_t> stride;  ///< none: kernel
  std::int64_t padding = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "kernel"; }
};
struct MaxPoolConfig : PoolConfig {
  std::unique_ptr<Layer> make_layer() const override;
};
struct AvgPoolConfig : PoolConfig {
  std::unique_ptr<Layer> make_layer() const override;
};

/// Maximum or mean over square windows of images. The backward pass of max needs only where each
/// maximum was, a byte an output.
class Pool final : public Layer {
 public:
  Pool(PoolingKind kind, const PoolConfig& config)
      : kind_(kind), kernel_(config.kernel), stride_(config.stride.value_or(config.kernel)), padding_(config.padding) {}

  std::string_view type() const override { return kind_ == PoolingKind::max ? "max_pool" : "avg_pool"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;

 private:
  PoolingShape shape_for(std::int64_t n, const Shape& input) const;

  PoolingKind kind_;
  std::int64_t kernel_, stride_, padding_;
};

struct UpsampleConfig : LayerConfig {
  std::int64_t factor = 2;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "factor"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Images of factor times the height and width, by the nearest pixel.
class Upsample final : public Layer {
 public:
  explicit Upsample(std::int64_t factor) : factor_(factor) {}

  std::string_view type() const override { return "upsample"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;

 private:
  std::int64_t factor_;
};

struct GlobalAvgPoolConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// The mean of each channel of an image, or a sequence, as a vector.
class GlobalAvgPool final : public Layer {
 public:
  std::string_view type() const override { return "global_avg_pool"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
