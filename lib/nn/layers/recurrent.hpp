// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>

#include "nn/layer.hpp"
#include "nn/layers/plan_cache.hpp"
#include "ops/sequence/recurrent.hpp"

namespace lockstep {

struct RecurrentConfig : LayerConfig {
  RecurrentCell cell;
  std::int64_t units = 0;
  bool bidirectional = false;

  explicit RecurrentConfig(RecurrentCell of) : cell(of) {}
  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "units"; }
  std::unique_ptr<Layer> make_layer() const override;
};
struct LstmConfig : RecurrentConfig {
  LstmConfig() : RecurrentConfig(RecurrentCell::lstm) {}
};
struct GruConfig : RecurrentConfig {
  GruConfig() : RecurrentConfig(RecurrentCell::gru) {}
};

/// Recurrent layers as torch.nn.LSTM and torch.nn.GRU with an initial state of zeros: x [n, T, in], y [n, T, units]
/// (the hidden states). With g = 4 gates (lstm: i, f, g, o) or 3 (gru: r, z, n), the parameters are weight_ih [g·units,
/// in], weight_hh [g·units, units] and bias_ih, bias_hh [g·units]. A bidirectional layer (Schuster & Paliwal,
/// "Bidirectional recurrent neural networks", 1997) has y [n, T, 2·units]; the second half comes from a second set of
/// parameters (weight_ih_reverse, …), which runs from the end. A library computes the whole sequence if one supports
/// it; otherwise each time step is computed on its own.
class Recurrent : public Layer {
 public:
  explicit Recurrent(const RecurrentConfig& config)
      : cell_(config.cell), units_(config.units), directions_(config.bidirectional ? 2 : 1) {}

  std::string_view type() const override { return cell_ == RecurrentCell::lstm ? "lstm" : "gru"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  LayerTraits traits() const override {
    return {.backward_reads_inputs = LayerTraits::all_inputs, .backward_reads_output = true};
  }
  void plan(const LayerPlan& plan) override;
  std::size_t saved_bytes(std::int64_t n, const Shape& output) const override;
  std::size_t prepare(std::int64_t n) override;
  double product_flops(std::int64_t n) const override;
  void set_weights(std::span<const Tensor> weights) override;
  void forward(const PassContext& context, const LayerTensors& tensors) override;
  void backward(const PassContext& context, const LayerTensors& tensors) override;

 protected:
  /// Returns null if no library computes the whole sequence.
  virtual std::unique_ptr<RecurrentSequence> plan_sequence(const RecurrentShape& shape) const {
    return plan_recurrent(plan_.providers, shape);
  }

 private:
  /// Products with the weights of one direction. `step` is planned by number of examples, `input` and `history` by
  /// number of rows, n·T.
  struct Direction {
    PlanCache<InnerProduct> input;    // x·W_ihᵀ of all time steps
    PlanCache<InnerProduct> step;     // h·W_hhᵀ of one time step
    PlanCache<InnerProduct> history;  // gradient of W_hh over all time steps
  };

  void run(std::size_t direction, const PassContext& context, const LayerTensors& t, ScratchAllocator& saved);
  void run_back(std::size_t direction, const PassContext& context, const LayerTensors& t, ScratchAllocator& saved);
  /// The position that a direction computes as its i-th time step.
  RecurrentStep step_of(std::size_t direction, std::int64_t i) const;
  std::int64_t gates() const { return gates_of(cell_) * units_; }
  RecurrentShape sequence_shape(std::int64_t n) const;
  std::size_t prepare_steps(std::int64_t n);
  InnerProductShape input_shape(std::int64_t n) const;
  InnerProductShape step_shape(std::int64_t n) const;
  InnerProductShape history_shape(std::int64_t n) const;

  RecurrentCell cell_;
  std::int64_t units_;
  std::vector<Direction> directions_;
  std::map<std::int64_t, std::unique_ptr<RecurrentSequence>> sequences_;  // by number of examples; null: step by step
  std::size_t sequence_bytes_ = 0;                                        // saved by the library for each example
  std::vector<Tensor> weights_;
};

}  // namespace lockstep
