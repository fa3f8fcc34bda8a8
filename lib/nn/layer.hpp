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
#include "core/device_graph.hpp"
#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/products/provider.hpp"
#include "parameters/parameter_layout.hpp"

namespace lockstep {

/// The largest number of inputs that any layer has.
inline constexpr std::size_t max_layer_inputs = 16;

/// The properties of a step that a layer's forward and backward calls depend on.
struct PassContext {
  ExecSpace space;
  bool training = true;
  std::uint64_t seed = 0;
  StepNumber step;
  std::int64_t first_example = 0;  ///< position of example 0 in the global batch
  Store gradients = Store::replace;
  bool same_parameters = false;  ///< true if parameter values are unchanged since the previous call
};

/// The tensors of one layer for some examples of a step. The first dimension of each tensor counts these examples,
/// except in parameters and their gradients. Activations and their gradients have the plan's dtype; parameters and
/// their gradients have its master_dtype.
struct LayerTensors {
  std::span<const Tensor> x;
  /// Only for layers with LayerTraits::takes_sum: receives x[0] + x[1], which the layer reads. Usually empty.
  Tensor sum;
  Tensor y;
  std::span<const Tensor> dx;             ///< gradients of the inputs; an empty tensor is not wanted
  Store input_gradient = Store::replace;  ///< how dx[0] is written, if the layer has adds_gradient
  Tensor dy;
  std::span<const Tensor> parameters;
  std::span<const Tensor> gradients;  ///< gradients of the parameters; those of a frozen layer are empty and not wanted
  Tensor saved;                       ///< u8 [saved_bytes]: kept from forward to backward
  Tensor workspace;                   ///< u8: scratch memory, valid during one call
};

/// A layer's statistics of a batch, of which other ranks may hold other examples. Tensors have master_dtype.
struct BatchStatistics {
  std::int64_t rows = 0;  ///< number of values per channel
  Tensor moments;         ///< [2, c]: the mean and Σ (x − mean)²
  Tensor sums;            ///< [2, c]: Σ dy and Σ dy·(x − mean)
};

/// The properties of a layer that planners ask for. The defaults hold for a layer that does not state them.
struct LayerTraits {
  /// One bit for each input.
  using Inputs = std::bitset<max_layer_inputs>;
  static constexpr Inputs all_inputs{(1u << max_layer_inputs) - 1};

  std::size_t max_inputs = 1;   ///< the largest number of inputs that the layer can read
  std::int64_t vocabulary = 0;  ///< number of different tokens, if the input holds token numbers (i32); 0: it does not
  /// If the input's values are row numbers of embedding tables: the row count of each table. Empty otherwise.
  std::span<const std::int64_t> tables;
  bool is_view = false;  ///< y is x in another shape: it shares x's memory, and the layer never runs
  bool is_sum = false;   ///< the layer only adds up its inputs
  Activation activation = Activation::none;  ///< the activation, if the layer computes nothing else
  bool takes_sum = false;                    ///< forward can add up two tensors while it reads their sum
  Inputs backward_reads_inputs;              ///< bit k: backward reads x[k]
  bool backward_reads_output = false;        ///< backward reads y
  bool is_cheap = false;                     ///< running forward again is cheaper than keeping its output for backward
  /// Bit k: the gradient of input k equals dy as `backward` leaves it (as `accumulate_gradient_statistics` leaves it in
  /// layers that have that). dx[k] may then be the same memory as dy, and that call has nothing to write.
  Inputs passes_gradient;
  bool overwrites_gradient = true;  ///< backward may leave other values in dy than it found
  bool adds_gradient = false;       ///< backward can add to the present values of dx[0]
  bool needs_statistics = false;    ///< forward and backward must see all examples first: see Layer
  /// Each vector of y depends on one vector of x, and backward reads only x: the layer can be planned for single
  /// vectors instead of the examples that contain them.
  bool maps_rows = false;
};

/// What a layer is planned for: its shapes, precision, compute libraries and place in the network.
struct LayerPlan {
  std::vector<Shape> inputs;  ///< shapes of one example
  Shape output;
  DType dtype = DType::f32;
  ProvidersConfig providers;
  std::uint64_t number = 0;  ///< number of the layer in the network (GraphNode::number); separates random streams

  DType master() const { return master_dtype(dtype); }
};

/// One node of a network. It is planned once (first the shapes, then each batch size when it occurs) and then runs many
/// times. It owns neither activations nor parameters, only what its operations need.
///
/// A layer treats each example independently, so the model may call it for a few examples at a time. A layer that must
/// see all examples first (batch_norm) sets LayerTraits::needs_statistics. A step then calls `accumulate_statistics`
/// for all examples, `finalize_statistics` once and `forward` for all examples; its backward pass calls
/// `accumulate_gradient_statistics` for all examples, `finalize_gradient_statistics` once and `backward` for all
/// examples.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string_view type() const = 0;

  // Planning.
  /// Returns the shape of one example's output. Throws Error("problem (why); what to do") if the inputs do not fit; the
  /// graph adds which layer it is.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  /// Offset of the output's first element in the first input, if the output is a contiguous range of that input's
  /// elements; otherwise nullopt.
  virtual std::optional<std::int64_t> contiguous_offset(const Shape& /*input*/) const { return std::nullopt; }
  /// May change with each successful `fuse` or `fuse_addition`, and with `freeze`; callers ask again.
  virtual LayerTraits traits() const { return {}; }
  /// Takes over an activation that follows the layer; returns false if the layer cannot.
  virtual bool fuse(Activation) { return false; }
  /// Takes over the addition of a second input to the output, before any activation; returns false if the layer cannot.
  virtual bool fuse_addition() { return false; }
  /// Keeps all parameters, statistics included, as they are from now on. Must be called before `plan`.
  void freeze() { frozen_ = true; }
  /// Bytes kept from forward to backward for n examples with this output, proportional to n. Valid after `plan`.
  virtual std::size_t saved_bytes(std::int64_t /*n*/, const Shape& /*output*/) const { return 0; }
  virtual void plan(const LayerPlan& plan) { plan_ = plan; }
  /// Allocates the device or host memory that the layer keeps for itself. `lockstep check` plans without this call, as
  /// there may be no device.
  virtual void allocate() {}
  /// Prepares calls for n examples and returns the workspace that they need, in bytes.
  virtual std::size_t prepare(std::int64_t /*n*/) { return 0; }
  /// Floating-point operations (multiply and add count as two) of the large matrix products in one forward pass of n
  /// examples. A backward pass needs as many again for dx, and as many again for the parameters' gradients.
  virtual double product_flops(std::int64_t /*n*/) const { return 0; }

  // Running.
  /// Receives the parameters in the plan's dtype, as large matrix products read them. Called again whenever their
  /// values have changed; their addresses never change.
  virtual void set_weights(std::span<const Tensor> /*weights*/) {}
  virtual void forward(const PassContext& context, const LayerTensors& tensors) = 0;
  virtual void backward(const PassContext& context, const LayerTensors& tensors) = 0;
  /// Observes x of some examples; `first` is true for the first call of a step.
  virtual void accumulate_statistics(const PassContext&, const LayerTensors&, bool /*first*/) {}
  /// The statistics of a layer that needs them. Other ranks' statistics may be merged in between
  /// `accumulate_statistics` and `finalize_statistics`, and between `finalize_gradient_statistics` and `backward`.
  virtual BatchStatistics* batch_statistics() { return nullptr; }
  /// Called when all `n` examples of this rank have been observed, and other ranks' statistics are merged in.
  virtual void finalize_statistics(const PassContext&, std::int64_t /*n*/) {}
  /// Observes dy of some examples and the tensors that backward_reads_* name. May overwrite dy. Writes dx of all inputs
  /// except the first.
  virtual void accumulate_gradient_statistics(const PassContext&, const LayerTensors&, bool /*first*/) {}
  /// Called when all `n` examples of this rank have been observed; `gradients` are final when it returns.
  virtual void finalize_gradient_statistics(const PassContext&, const LayerTensors&, std::int64_t /*n*/) {}

 protected:
  LayerPlan plan_;
  bool frozen_ = false;
};

/// A layer's keys in a deck.
struct LayerConfig : Config {
  virtual std::unique_ptr<Layer> make_layer() const = 0;
};

/// All layer types that a deck can name. A new layer type needs one line in this table.
std::span<const Alternative> layer_alternatives();

}  // namespace lockstep
