// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <optional>

#include "nn/layer.hpp"
#include "ops/pool/pooling.hpp"

namespace lockstep {

/// Pooling over sequences (`dimensions` = 1), images (2) or volumes (3).
struct PoolConfig : LayerConfig {
  PoolConfig(PoolingKind of_windows, int of_space) : kind(of_windows), dimensions(of_space) {}

  PoolingKind kind;
  int dimensions;
  std::int64_t kernel = 0;
  std::optional<std::int64_t> stride;  ///< nullopt: equal to kernel
  std::int64_t padding = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "kernel"; }
  std::unique_ptr<Layer> make_layer() const override;
};
template <PoolingKind of_windows, int of_space>
struct PoolConfigOf : PoolConfig {
  PoolConfigOf() : PoolConfig(of_windows, of_space) {}
};

/// Maximum or mean over windows of sequences, images (square windows) or volumes (cubic windows). The backward pass of
/// max needs only the position of each maximum, one byte per output. Volumes are pooled slice by slice and then along
/// the depth: the maximum is the same (the first of equal ones), while a mean is rounded twice.
class Pool final : public Layer {
 public:
  explicit Pool(const PoolConfig& config)
      : kind_(config.kind),
        dimensions_(config.dimensions),
        windows_{config.kernel, config.stride.value_or(config.kernel), config.padding} {}

  std::string_view type() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// The pooling over images that n examples with this input need; for volumes, that of their slices.
  PoolingShape slices(std::int64_t n, const Shape& input) const;
  /// The second pooling of volumes, along the depth, which follows that of the slices.
  PoolingShape along_depth(std::int64_t n, const Shape& input) const;
  /// The positions of the maxima of both poolings in `saved`; a tensor is empty if its pooling does not exist.
  std::array<Tensor, 2> winners_in(const Tensor& saved, std::int64_t n) const;

  PoolingKind kind_;
  int dimensions_;
  PoolingWindows windows_;
};

struct UpsampleConfig : LayerConfig {
  std::int64_t factor = 2;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "factor"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Enlarges images by `factor` in height and width, repeating the nearest pixel.
class Upsample final : public Layer {
 public:
  explicit Upsample(std::int64_t factor) : factor_(factor) {}

  std::string_view type() const override { return "upsample"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  std::int64_t factor_;
};

struct GlobalAvgPoolConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// The mean of each channel of an image, a sequence or a volume, as a vector.
class GlobalAvgPool final : public Layer {
 public:
  std::string_view type() const override { return "global_avg_pool"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

}  // namespace lockstep
