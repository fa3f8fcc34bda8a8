// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/layer.hpp"
#include "nn/layers/workspace.hpp"
#include "nn/plan_cache.hpp"

namespace lockstep {

struct LstmConfig : LayerConfig {
  std::int64_t units = 0;

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "units"; }
  std::unique_ptr<Layer> make_layer() const override;
};

/// Long short-term memory as torch.nn.LSTM, from zeros: x [n, T, in], y [n, T, units] (the hidden states),
/// weight_ih [4·units, in], weight_hh [4·units, units], bias_ih, bias_hh [4·units], gates i, f, g, o.
class Lstm final : public Layer {
 public:
  explicit Lstm(const LstmConfig& config) : units_(config.units) {}

  std::string_view type() const override { return "lstm"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .backward_reads_output = true};
  }
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override { return input_shape(n).flops() + history_shape(n).flops(); }
  void set_weights(std::span<const Tensor> weights) override;
  void forward(const StepContext& context, const LayerTensors& tensors) override;
  void backward(const StepContext& context, const LayerTensors& tensors) override;

 private:
  InnerProductShape input_shape(std::int64_t n) const;
  InnerProductShape step_shape(std::int64_t n) const;
  InnerProductShape history_shape(std::int64_t n) const;

  std::int64_t units_;
  PlanCache<InnerProduct> input_products_;    // x·W_ihᵀ of all steps
  PlanCache<InnerProduct> step_products_;     // h·W_hhᵀ of one step
  PlanCache<InnerProduct> history_products_;  // the gradient of W_hh, of all steps
};

}  // namespace lockstep
