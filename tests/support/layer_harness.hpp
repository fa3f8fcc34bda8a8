// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/graph.hpp"
#include "nn/layer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep::test {

/// Runs a single layer, with separate memory for each tensor. Before each call, tensors that the layer has not declared
/// to read, and those that it must write, are filled with NaN, so that mistakes show. A layer with statistics gets its
/// examples in two pieces, any other layer all at once.
class LayerHarness {
 public:
  struct Options {
    DType dtype = DType::f64;
    ProvidersConfig providers;
    Activation fused = Activation::none;
    bool addition = false;  ///< fuse the addition of the second input into the layer, before `fused`
  };

  LayerHarness(std::unique_ptr<Layer> layer, const std::vector<Shape>& inputs, std::int64_t n, const Options& options);
  /// `entry`: an entry of a deck's model.layers, "{linear: {features: 3}}". `inputs`: shapes of one example.
  LayerHarness(const std::string& entry, const std::vector<Shape>& inputs, std::int64_t n, const Options& options);

  Layer& layer() { return *layer_; }
  /// Number of inputs with a gradient; token inputs have none.
  std::size_t inputs() const { return dx_.size(); }
  std::size_t parameters() const { return parameter_.size(); }
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const Tensor& x(std::size_t i) const { return x_[i].get(); }
  const Tensor& parameter(std::size_t i) const { return parameter_[i].get(); }
  const Shape& output_shape() const { return output_shape_; }  ///< including the batch dimension

  std::vector<double> forward(bool training = true);
  struct Gradients {
    std::vector<std::vector<double>> x, parameters;
  };
  /// Must follow a forward pass. `wants_dx`: false for a network's first layer.
  Gradients backward(const std::vector<double>& dy, Store store = Store::replace, bool wants_dx = true);

  /// Names the traits of tensors that the backward pass reads without declaring it, as in "backward_reads_inputs[0],
  /// backward_reads_output". A comparison or maximum can turn NaN into a number, so that wrong gradients need not be
  /// NaN. Therefore each tensor is hidden in turn, and the gradients must stay the same bit for bit.
  std::string undeclared_reads(const std::vector<double>& dy);

 private:
  /// Tensors that the backward pass must not read, each with the trait that would allow it.
  std::vector<std::pair<Tensor, std::string>> undeclared() const;
  /// Must follow a forward pass. The tensors `hidden` are NaN during the call.
  Gradients backward_without(std::span<const Tensor> hidden, const std::vector<double>& dy, Store store, bool wants_dx);
  /// Views of examples [first, first + count), valid until the next call of `tensors`.
  LayerTensors tensors(std::int64_t first, std::int64_t count, bool wants_dx);
  template <class Call>
  void for_pieces(bool wants_dx, Call call);
  PassContext context(bool training, Store store) const;

  std::unique_ptr<Layer> layer_;
  DType dtype_;
  std::int64_t n_;
  Shape output_shape_;
  std::vector<ParameterSpec> specs_;
  std::vector<OwnedTensor> x_, dx_, parameter_, weight_, gradient_;
  OwnedTensor y_, dy_, saved_, workspace_;
  std::vector<Tensor> x_views_, dx_views_, parameter_views_, weight_views_, gradient_views_;
};

/// Pseudorandom tokens below `vocabulary`, from the filling of this tag.
std::vector<std::int32_t> filling_tokens(std::uint64_t tag, std::int64_t count, std::int64_t vocabulary);

/// Parses one entry of a deck's model.layers.
ListItem parse_layer(const std::string& entry);
/// Parses a list of entries, "[relu, {linear: {features: 3}}]".
std::vector<ListItem> parse_layers(const std::string& list);

/// Sets the initial parameters that make_golden.py gives its networks, numbered in the order of the deck's layers.
void golden_start(const ParameterBuffer& parameters, const Graph& graph);

/// Providers to test: auto, and each one in this build by name.
std::vector<ProviderKind> provider_kinds();
/// Returns auto, and portable if that differs from it.
std::vector<ProviderKind> automatic_and_portable();
ProvidersConfig using_provider(ProviderKind kind);

}  // namespace lockstep::test
