// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "nn/layers/plan_cache.hpp"
#include "parameters/initializer.hpp"

namespace lockstep {

/// The initialization of the weight and bias of a layer with fan_in inputs and fan_out outputs per element. Its members
/// are keys of linear and convolution layers.
struct WeightInit {
  /// fan_in: U(±1/√fan_in) for weight and bias (LeCun et al. 1998; PyTorch's default). he: N(0, 2/fan_in) (He et al.,
  /// "Delving deep into rectifiers", 2015). glorot: U(±√(6/(fan_in + fan_out))) (Glorot & Bengio 2010). Convolutions
  /// use PyTorch's fans: size(1) and size(0) of the weight, each times the number of taps. With he and glorot, biases
  /// start at 0.
  enum class Kind { fan_in, he, glorot };
  Kind kind = Kind::fan_in;
  double std = 0;  ///< if > 0, replaces `kind`: weights start as N(0, std²), biases as 0

  void describe(Fields& fields);
  Initializer weight(std::int64_t fan_in, std::int64_t fan_out) const;
  Initializer bias(std::int64_t fan_in) const;
};

struct LinearConfig : LayerConfig {
  std::int64_t features = 0;
  bool bias = true;
  WeightInit start;
  std::string tied_to;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "features"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// y = x·Wᵀ + b for vectors, or for the vectors of sequences: x [n, in] or [n, T, in], weight [features, in], bias
/// [features]. The weight may be shared with an embedding (Press & Wolf, "Using the output embedding to improve
/// language models", 2017).
class Linear final : public Layer {
 public:
  explicit Linear(const LinearConfig& config)
      : features_(config.features), bias_(config.bias), start_(config.start), tied_to_(config.tied_to) {}

  std::string_view type() const override { return "linear"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  bool fuse(Activation activation) override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs,
            .backward_reads_output = activation_ != Activation::none && !keeps_derivative(activation_),
            .maps_rows = activation_ == Activation::none};
  }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override { return shape_for(rows(n)).flops(); }
  void set_weights(std::span<const Tensor> weights) override { products_.set_weight(weights[0]); }
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 private:
  /// Number of vectors in n examples.
  std::int64_t rows(std::int64_t n) const { return plan_.inputs[0].rank() == 2 ? n * plan_.inputs[0][0] : n; }
  InnerProductShape shape_for(std::int64_t rows) const;

  std::int64_t features_;
  bool bias_;
  WeightInit start_;
  std::string tied_to_;
  Activation activation_ = Activation::none;
  PlanCache<InnerProduct> products_;  // by number of rows
};

}  // namespace lockstep
