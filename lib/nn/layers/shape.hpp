// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <vector>

#include "nn/layer.hpp"
#include "ops/elementwise/copies.hpp"

namespace lockstep {

/// Layers that move the elements of examples, or add them up over axes. Axes are those of an example, from 0; negative
/// ones count from the last.

/// Each output element is a different one of the input elements. Gradients go back to where the elements came from; the
/// gradient of an input element that is in no output is 0.
class Rearrangement : public Layer {
 public:
  void forward(const PassContext& context, const LayerTensors& tensors) final;
  void backward(const PassContext& context, const LayerTensors& tensors) final;

 private:
  /// Adds the axes of one example to `grid`, whose x is the input and whose y is the output.
  virtual void add_axes(const Shape& input, StridedGrid& grid) const = 0;
  StridedGrid grid_of(std::int64_t n) const;
};

struct ReshapeConfig : LayerConfig {
  std::vector<std::int64_t> shape;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Gives the input another shape; the elements keep their order.
class Reshape final : public Layer {
 public:
  explicit Reshape(const std::vector<std::int64_t>& shape) : shape_(std::span(shape)) {}

  std::string_view type() const override { return "reshape"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override { return {.is_view = true}; }
  void forward(const PassContext&, const LayerTensors&) override {}
  void backward(const PassContext&, const LayerTensors&) override {}

 private:
  Shape shape_;
};

struct PermuteConfig : LayerConfig {
  std::vector<std::int64_t> order;

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Axis k of the output is axis order[k] of the input.
class Permute final : public Rearrangement {
 public:
  explicit Permute(const std::vector<std::int64_t>& order) : order_(order) {}

  std::string_view type() const override { return "permute"; }
  Shape output_shape(std::span<const Shape> inputs) const override;

 private:
  void add_axes(const Shape& input, StridedGrid& grid) const override;

  std::vector<std::int64_t> order_;
};

struct SliceConfig : LayerConfig {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;  ///< nullopt: the whole extent

  void describe(Fields& fields) override;
  std::unique_ptr<Layer> make_layer() const override;
};

/// Keeps positions begin … end − 1 of one axis; negative positions count from the axis's end.
class Slice final : public Rearrangement {
 public:
  explicit Slice(const SliceConfig& config) : config_(config) {}

  std::string_view type() const override { return "slice"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::optional<std::int64_t> contiguous_offset(const Shape& input) const override;

 private:
  struct Bounds {
    std::int64_t begin, end;
  };
  Bounds kept_of(const Shape& input) const;
  void add_axes(const Shape& input, StridedGrid& grid) const override;

  SliceConfig config_;
};

struct PatchifyConfig : LayerConfig {
  std::int64_t patch = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "patch"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Turns the square patches of images into positions of sequences, row by row: H×W×C becomes (H/p · W/p)×(p·p·C). The
/// elements of a patch are in the order row, column, channel.
class Patchify final : public Rearrangement {
 public:
  explicit Patchify(std::int64_t patch) : patch_(patch) {}

  std::string_view type() const override { return "patchify"; }
  Shape output_shape(std::span<const Shape> inputs) const override;

 private:
  void add_axes(const Shape& input, StridedGrid& grid) const override;

  std::int64_t patch_;
};

struct ConcatConfig : LayerConfig {
  void describe(Fields&) override {}
  std::unique_ptr<Layer> make_layer() const override;
};

/// Concatenates two or more inputs along the last axis: features of vectors, channels of images. All other extents must
/// be equal.
class Concat final : public Layer {
 public:
  std::string_view type() const override { return "concat"; }
  LayerTraits traits() const override { return {.max_inputs = max_layer_inputs}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;
};

struct ReduceConfig : LayerConfig {
  std::vector<std::int64_t> axes;

  void describe(Fields& fields) override;
};
struct SumConfig : ReduceConfig {
  std::unique_ptr<Layer> make_layer() const override;
};
struct MeanConfig : ReduceConfig {
  std::unique_ptr<Layer> make_layer() const override;
};

/// Sum or mean over some axes of an example, which the output no longer has. Over all axes, the output is a vector of
/// one element.
class Reduce final : public Layer {
 public:
  enum class Of { sum, mean };

  Reduce(Of of, const std::vector<std::int64_t>& axes) : of_(of), axes_(axes) {}

  std::string_view type() const override { return of_ == Of::sum ? "sum" : "mean"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// For each axis of the input: true if it is reduced.
  std::vector<bool> summed(const Shape& input) const;
  /// The loops of the reduction; x is the input, y the output.
  StridedGrid grid_of(std::int64_t n) const;
  double factor() const;

  Of of_;
  std::vector<std::int64_t> axes_;
};

}  // namespace lockstep
