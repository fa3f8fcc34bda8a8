// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <bitset>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"
#include "core/step_number.hpp"
#include "core/tensor.hpp"
#include "nn/initializer.hpp"
#include "nn/parameter_arrival.hpp"
#include "nn/statistics_exchange.hpp"
#include "ops/activation.hpp"
#include "ops/provider.hpp"

namespace lockstep {

/// Most inputs of any layer.
inline constexpr std::size_t max_layer_inputs = 16;

/// A parameter that a layer asks for; it lives in the ParameterBuffer.
struct ParameterSpec {
  /// `trained`: moved by the optimizer. `statistic`: the layer's own running value; what stands in its
  /// gradient's place after a backward pass is the sum over examples of what is to be added to it. `frozen`: either, of
  /// a layer that stays as it is.
  enum class Kind { trained, statistic, frozen };

  std::string name;  ///< "weight"
  Shape shape;       ///< as in files
  Initializer initializer;
  Kind kind = Kind::trained;
  /// An earlier layer that reads tokens, whose parameter of this name and shape it is; empty: the layer's own.
  std::string tied_to = {};
};

/// What a layer needs to know of the step that it takes part in.
struct StepContext {
  ExecSpace space;
  bool training = true;
  std::uint64_t seed = 0;
  StepNumber step;
  std::int64_t first_example = 0;  ///< position of example 0 in the global batch
  Store gradients = Store::replace;
  bool same_parameters = false;  ///< as in the call before
};

/// The tensors of one layer for some examples of a step; all have these as their first dimension but
/// parameters. Activations and their gradients are of the plan's dtype, parameters and gradients of
/// them of its master_dtype.
struct LayerTensors {
  std::span<const Tensor> x;
  Tensor sum;  ///< for a layer that takes_sum (LayerTraits): where x[0] + x[1] goes, which is what the layer reads;
               ///< mostly empty
  Tensor y;
  std::span<const Tensor> dx;             ///< an empty one is not wanted
  Store input_gradient = Store::replace;  ///< how dx[0] is written, for a layer that adds_gradient
  Tensor dy;
  std::span<const Tensor> parameters;
  std::span<const Tensor> gradients;  ///< empty ones of a frozen layer: not wanted
  Tensor saved;                       ///< u8 [saved_bytes]: kept from forward to backward
  Tensor workspace;                   ///< u8: anybody's during one call
};

/// What a layer is, for whoever plans it; what it does not say is as here.
struct LayerTraits {
  /// A bit for each input.
  using Inputs = std::bitset<max_layer_inputs>;
  static constexpr Inputs all_inputs{(1u << max_layer_inputs) - 1};

  std::size_t max_inputs = 1;   ///< the most that the layer can read
  std::int64_t vocabulary = 0;  ///< words that it knows, when its input are their numbers (i32); 0: values
  /// Where the input's values are the numbers of rows of tables: how many rows the table of each has. Else empty.
  std::span<const std::int64_t> tables;
  bool is_view = false;                      ///< y is x under another shape: shares x's memory, and nothing runs
  bool is_sum = false;                       ///< nothing but the sum of its inputs
  Activation activation = Activation::none;  ///< this, and nothing else
  bool takes_sum = false;                    ///< forward can add up two tensors that it reads in the same pass
  Inputs backward_reads_inputs;              ///< x[k]
  bool backward_reads_output = false;        ///< y
  bool is_cheap = false;                     ///< forward is better run again than its output kept for backward
  /// The gradient of input k is dy as backward (accumulate_gradient_statistics, where there is one) leaves it: then
  /// dx[k] may be dy's memory, and that call has nothing to write.
  Inputs passes_gradient;
  bool overwrites_gradient = true;  ///< backward may leave something else in dy than it found
  bool adds_gradient = false;       ///< backward can add to what stands in dx[0]
  bool needs_statistics = false;    ///< forward and backward need all examples first: see Layer
  /// Each vector of y is made of one of x, and backward reads x alone: the layer may be planned for vectors in the
  /// place of the examples that hold them.
  bool maps_rows = false;
};

/// What a layer is planned for.
struct LayerPlan {
  std::vector<Shape> inputs;  ///< of one example
  Shape output;
  DType dtype = DType::f32;
  ProvidersConfig providers;
  std::uint64_t number = 0;  ///< of the layer in the network; separates random streams

  DType master() const { return master_dtype(dtype); }
};

/// One node of a network. It is planned once (shapes, then batch sizes as they occur) and then run
/// many times; it owns no activations and no parameters, only what its operations need.
///
/// A layer computes each example by itself, so that the model may call it for a few examples at a
/// time. One that must see all of them first (batch_norm) says so (LayerTraits::needs_statistics): then a step calls
/// `accumulate_statistics` for all examples, `finalize_statistics`, `forward` for all, and backward likewise
/// `accumulate_gradient_statistics` for all, `finalize_gradient_statistics`, `backward` for all.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string_view type() const = 0;

  // Planning.
  /// Shape of one example's output. Throws Error("problem (why); what to do") for inputs that do
  /// not fit; the graph adds where.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  /// Where an output of its first input's numbers, a stretch of them, begins in that; none of layers that give others.
  virtual std::optional<std::int64_t> stretch_of(const Shape& /*input*/) const { return std::nullopt; }
  /// Asked again after each call that lets the layer take over another one, and after `freeze`.
  virtual LayerTraits traits() const { return {}; }
  /// Takes over an activation that follows; false when the layer cannot.
  virtual bool fuse(Activation) { return false; }
  /// Takes over the addition of a second input to its output, before any activation; false when it cannot.
  virtual bool fuse_addition() { return false; }
  /// From here on the parameters stay as they are, statistics among them. Called before `plan`.
  void freeze() { frozen_ = true; }
  /// Bytes kept from forward to backward for n examples with this output, proportional to n; asked after `plan`.
  virtual std::size_t saved_bytes(std::int64_t /*n*/, const Shape& /*output*/) const { return 0; }
  virtual void plan(const LayerPlan& plan) { plan_ = plan; }
  /// Takes the step's memory that the layer keeps for itself. `lockstep check` plans without, where there is no device.
  virtual void allocate() {}
  /// Makes ready for calls of n examples; returns the workspace that these need.
  virtual std::size_t prepare(std::int64_t /*n*/) { return 0; }
  /// Operations (multiply and add count as two) of large products in one forward pass of n
  /// examples; a backward pass does as many for each of dx and the gradients.
  virtual double product_flops(std::int64_t /*n*/) const { return 0; }

  // Running.
  /// The parameters in the plan's dtype, as large products read them; called again whenever their values have
  /// changed. They stay where they are.
  virtual void set_weights(std::span<const Tensor> /*weights*/) {}
  virtual void forward(const StepContext& context, const LayerTensors& tensors) = 0;
  virtual void backward(const StepContext& context, const LayerTensors& tensors) = 0;
  /// x of some examples; of the first ones when `first`.
  virtual void accumulate_statistics(const StepContext&, const LayerTensors&, bool /*first*/) {}
  /// What a layer that needs statistics has seen, to which other ranks may add between `accumulate_statistics`
  /// and `finalize_statistics`, and between `finalize_gradient_statistics` and `backward`.
  virtual BatchStatistics* batch_statistics() { return nullptr; }
  /// All `n` examples have been observed, and what other ranks have.
  virtual void finalize_statistics(const StepContext&, std::int64_t /*n*/) {}
  /// dy of some examples, and what backward_reads_* name; may overwrite dy, and writes the dx of all inputs but the
  /// first.
  virtual void accumulate_gradient_statistics(const StepContext&, const LayerTensors&, bool /*first*/) {}
  /// All examples of this rank have been observed: `gradients` are final after this call.
  virtual void finalize_gradient_statistics(const StepContext&, const LayerTensors&, std::int64_t /*n*/) {}

 protected:
  LayerPlan plan_;
  bool frozen_ = false;
};

/// A layer's keys in a deck.
struct LayerConfig : Config {
  virtual std::unique_ptr<Layer> make_layer() const = 0;
};

}  // namespace lockstep
