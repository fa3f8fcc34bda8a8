// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.hpp"
#include "core/tensor.hpp"
#include "nn/initializer.hpp"
#include "ops/activation.hpp"
#include "ops/provider.hpp"

namespace lockstep {

/// Most inputs of any layer.
inline constexpr std::size_t max_layer_inputs = 16;

/// A parameter that a layer asks for; it lives in the ParameterBuffer.
struct ParameterSpec {
  std::string name;  ///< "weight"
  Shape shape;       ///< as in files
  Initializer initializer;
};

/// What a layer needs to know of the step that it takes part in.
struct StepContext {
  ExecSpace space;
  bool training = true;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_example = 0;  ///< position of example 0 in the global batch
  Store gradients = Store::replace;
};

/// The tensors of one layer in one step; all have the batch as their first dimension but parameters.
struct LayerTensors {
  std::span<const Tensor> x;
  Tensor y;
  std::span<const Tensor> dx;  ///< an empty one is not wanted
  Tensor dy;                   ///< backward may overwrite it
  std::span<const Tensor> parameters;
  std::span<const Tensor> gradients;
  Tensor saved;      ///< u8 [saved_bytes]: kept from forward to backward
  Tensor workspace;  ///< u8: anybody's during one call
};

/// What a layer is planned for.
struct LayerPlan {
  std::vector<Shape> inputs;  ///< of one example
  Shape output;
  DType dtype = DType::f32;
  ProvidersConfig providers;
  std::uint64_t number = 0;  ///< of the layer in the network; separates random streams
};

/// One node of a network. It is planned once (shapes, then batch sizes as they occur) and then run
/// many times; it owns no activations and no parameters, only what its operations need.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string_view type() const = 0;

  // Planning.
  /// Shape of one example's output. Throws Error("problem (why); what to do") for inputs that do
  /// not fit; the graph adds where.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  /// Whether y is x under another shape: it then shares x's memory and nothing runs.
  virtual bool is_view() const { return false; }
  /// Most inputs that the layer can read.
  virtual std::size_t max_inputs() const { return 1; }
  /// What the layer is, when it is nothing but a function of each element.
  virtual Activation as_activation() const { return Activation::none; }
  /// Takes over an activation that follows; false when the layer cannot.
  virtual bool fuse(Activation) { return false; }
  virtual bool backward_reads_input() const { return false; }
  virtual bool backward_reads_output() const { return false; }
  /// Bytes kept from forward to backward for n examples with this output; asked before `plan`.
  virtual std::size_t saved_bytes(std::int64_t /*n*/, const Shape& /*output*/) const { return 0; }
  virtual void plan(const LayerPlan& plan) { plan_ = plan; }
  /// Makes ready for batches of n examples; returns the workspace that these need.
  virtual std::size_t prepare(std::int64_t /*n*/) { return 0; }
  /// Operations (multiply and add count as two) of large products in one forward pass of n
  /// examples; a backward pass does as many for each of dx and the gradients.
  virtual double product_flops(std::int64_t /*n*/) const { return 0; }

  // Running.
  virtual void forward(const StepContext& context, const LayerTensors& tensors) = 0;
  virtual void backward(const StepContext& context, const LayerTensors& tensors) = 0;

 protected:
  LayerPlan plan_;
};

/// A layer's keys in a deck.
struct LayerConfig : Config {
  virtual std::unique_ptr<Layer> make_layer() const = 0;
};

}  // namespace lockstep
