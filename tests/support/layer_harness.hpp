// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layer.hpp"
#include "nn/parameters/parameter_buffer.hpp"

namespace lockstep::test {

/// One layer alone, with tensors of its own for everything. Whatever the layer has not said that it
/// reads is poisoned before each call, and so is whatever it has to write: mistakes become NaN. A layer
/// that needs statistics is given its examples in two pieces, any other all at once.
class LayerHarness {
 public:
  struct Options {
    DType dtype = DType::f64;
    ProvidersConfig providers;
    Activation fused = Activation::none;
    bool addition = false;  ///< whether the layer takes over the addition of its second input, before `fused`
  };

  LayerHarness(std::unique_ptr<Layer> layer, const std::vector<Shape>& inputs, std::int64_t n, const Options& options);
  /// `entry`: as in a deck's model.layers, "{linear: {features: 3}}". `inputs`: shapes of one example.
  LayerHarness(const std::string& entry, const std::vector<Shape>& inputs, std::int64_t n, const Options& options);

  Layer& layer() { return *layer_; }
  /// Those that have a gradient: not tokens.
  std::size_t inputs() const { return dx_.size(); }
  std::size_t parameters() const { return parameter_.size(); }
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const Tensor& x(std::size_t i) const { return x_[i].get(); }
  const Tensor& parameter(std::size_t i) const { return parameter_[i].get(); }
  const Shape& output_shape() const { return output_shape_; }  ///< with the batch

  std::vector<double> forward(bool training = true);
  struct Gradients {
    std::vector<std::vector<double>> x, parameters;
  };
  /// After a forward. `wants_dx`: false as for a network's first layer.
  Gradients backward(const std::vector<double>& dy, Store store = Store::replace, bool wants_dx = true);

  /// Whatever the backward pass reads without having said so, by the functions that would say it, as
  /// "backward_reads_inputs[0], backward_reads_output". Of NaN a comparison or a maximum may make a number, and then a
  /// gradient is wrong without being NaN: so each tensor is hidden alone, and gradients must stay the same bit for bit.
  std::string undeclared_reads(const std::vector<double>& dy);

 private:
  /// The tensors that the backward pass must not read, each with the function that would allow it.
  std::vector<std::pair<Tensor, std::string>> undeclared() const;
  /// After a forward, with these tensors full of NaN during the call.
  Gradients backward_without(std::span<const Tensor> hidden, const std::vector<double>& dy, Store store, bool wants_dx);
  /// Views of some examples. They stay until the next call of `tensors`.
  LayerTensors tensors(std::int64_t first, std::int64_t count, bool wants_dx);
  template <class Call>
  void for_pieces(bool wants_dx, Call call);
  StepContext context(bool training, Store store) const;

  std::unique_ptr<Layer> layer_;
  DType dtype_;
  std::int64_t n_;
  Shape output_shape_;
  std::vector<ParameterSpec> specs_;
  std::vector<OwnedTensor> x_, dx_, parameter_, weight_, gradient_;
  OwnedTensor y_, dy_, saved_, workspace_;
  std::vector<Tensor> x_views_, dx_views_, parameter_views_, weight_views_, gradient_views_;
};

/// Tokens below `vocabulary`, by the filling of that tag.
std::vector<std::int32_t> filling_tokens(std::uint64_t tag, std::int64_t count, std::int64_t vocabulary);

/// One entry of a deck's model.layers.
ListItem parse_layer(const std::string& entry);
/// Several, as "[relu, {linear: {features: 3}}]".
std::vector<ListItem> parse_layers(const std::string& list);

/// The start that make_golden.py gives its networks: parameters numbered in the order of the deck's layers.
void golden_start(const ParameterBuffer& parameters, const Graph& graph);

/// Providers to try: auto, and each one that this build has, by name.
std::vector<ProviderKind> provider_kinds();
/// auto, and portable where that is another one.
std::vector<ProviderKind> automatic_and_portable();
ProvidersConfig using_provider(ProviderKind kind);

}  // namespace lockstep::test
