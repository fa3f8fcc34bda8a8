// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/lstm.hpp"

#include <algorithm>

#include "ops/bias.hpp"
#include "ops/lstm.hpp"

namespace lockstep {
namespace {

/// What the forward pass makes beside its output.
struct LstmSaved {
  Tensor cells;  // [n, T, u]
  Tensor gates;  // [n, T, 4u], after their activations

  LstmSaved(ScratchAllocator& memory, std::int64_t n, std::int64_t length, std::int64_t units, DType dtype)
      : cells(memory.take(master_dtype(dtype), {n, length, units})),
        gates(memory.take(dtype, {n, length, 4 * units})) {}
};

/// Pointers of one step's kernel.
struct ForwardStep {
  Tensor recurrent;  // [n, 4u]
  Tensor h;          // [n, u]

  ForwardStep(ScratchAllocator& memory, std::int64_t n, std::int64_t units, DType dtype)
      : recurrent(memory.take(dtype, {n, 4 * units})), h(memory.take(dtype, {n, units})) {}
};

struct Gradients {
  Tensor dcell;        // [n, u]
  Tensor recurrent;    // [n, u]
  Tensor dgates_step;  // [n, 4u]
  Tensor dgates;       // [n, T, 4u]
  Tensor before;       // [n, T, u]: y, a step earlier

  Gradients(ScratchAllocator& memory, std::int64_t n, std::int64_t length, std::int64_t units, DType dtype)
      : dcell(memory.take(master_dtype(dtype), {n, units})),
        recurrent(memory.take(dtype, {n, units})),
        dgates_step(memory.take(dtype, {n, 4 * units})),
        dgates(memory.take(dtype, {n, length, 4 * units})),
        before(memory.take(dtype, {n, length, units})) {}
};

}  // namespace

void LstmConfig::describe(Fields& fields) {
  fields.integer("units", units, {1, 1e9}, "outputs a position", Presence::required);
}

std::unique_ptr<Layer> LstmConfig::make_layer() const { return std::make_unique<Lstm>(*this); }

Shape Lstm::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 2, ExitStatus::bad_deck,
           "lstm reads sequences (positions×features), but its input is {}; put an embedding before it",
           to_string(inputs[0]));
  return {inputs[0][0], units_};
}

std::vector<ParameterSpec> Lstm::parameters(std::span<const Shape> inputs) const {
  const Initializer start = Initializer::fan_in(units_);
  return {{"weight_ih", {4 * units_, inputs[0][1]}, start},
          {"weight_hh", {4 * units_, units_}, start},
          {"bias_ih", {4 * units_}, start},
          {"bias_hh", {4 * units_}, start}};
}

InnerProductShape Lstm::input_shape(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {.n = n * x[0], .in = x[1], .out = 4 * units_, .dtype = plan_.dtype};
}

InnerProductShape Lstm::step_shape(std::int64_t n) const {
  return {.n = n, .in = units_, .out = 4 * units_, .dtype = plan_.dtype, .bias = false, .uses = plan_.inputs[0][0]};
}

InnerProductShape Lstm::history_shape(std::int64_t n) const {
  return {.n = n * plan_.inputs[0][0], .in = units_, .out = 4 * units_, .dtype = plan_.dtype, .bias = false};
}

std::size_t Lstm::saved_bytes(std::int64_t n, const Shape& output) const {
  ScratchAllocator memory;
  const LstmSaved parts(memory, n, output[0], output[1], plan_.dtype);
  return memory.used();
}

std::size_t Lstm::prepare(std::int64_t n) {
  const std::int64_t length = plan_.inputs[0][0], rows = n * length;
  std::size_t products = bias_workspace_bytes(plan_.dtype, rows, 4 * units_);
  const auto plan = [&](PlanCache<InnerProduct>& planned, const InnerProductShape& shape) {
    const InnerProduct& product = planned.prepare(
        shape.n, [&](std::int64_t) { return plan_inner_product(plan_.providers, shape); });
    products = std::max(products, product.workspace_bytes());
  };
  plan(input_products_, input_shape(n));
  plan(step_products_, step_shape(n));
  plan(history_products_, history_shape(n));
  ScratchAllocator forward, backward;
  const LstmSaved parts(forward, n, length, units_, plan_.dtype);  // evaluation has no saved memory
  const ForwardStep step(forward, n, units_, plan_.dtype);
  const Gradients gradients(backward, n, length, units_, plan_.dtype);
  return std::max(forward.used(), backward.used()) + products;
}

void Lstm::set_weights(std::span<const Tensor> weights) {
  input_products_.set_weight(weights[0]);
  step_products_.set_weight(weights[1]);
}

void Lstm::forward(const StepContext& context, const LayerTensors& t) {
  const std::int64_t n = t.y.shape[0], length = t.y.shape[1];
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const LstmSaved parts(t.saved ? saved : workspace, n, length, units_, plan_.dtype);
  const ForwardStep step(workspace, n, units_, plan_.dtype);
  const Tensor scratch = workspace.rest();
  input_products_.at(n * length).forward(context.space, t.x[0], t.parameters[2], parts.gates, scratch);
  InnerProduct& recurrent = step_products_.at(n);
  for (std::int64_t i = 0; i < length; ++i) {
    if (i > 0) recurrent.forward(context.space, step.h, {}, step.recurrent, scratch);
    lstm_forward_step(context.space, i, parts.gates, i > 0 ? step.recurrent : Tensor{}, t.parameters[3], parts.cells,
                      t.y, step.h);
  }
}

void Lstm::backward(const StepContext& context, const LayerTensors& t) {
  const std::int64_t n = t.dy.shape[0], length = t.dy.shape[1];
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const LstmSaved parts(saved, n, length, units_, plan_.dtype);
  const Gradients gradients(workspace, n, length, units_, plan_.dtype);
  const Tensor scratch = workspace.rest();
  InnerProduct& recurrent = step_products_.at(n);
  for (std::int64_t i = length; i-- > 0;) {
    lstm_backward_step(context.space, i, parts.gates, parts.cells, t.dy,
                       i + 1 < length ? gradients.recurrent : Tensor{}, gradients.dcell, gradients.dgates,
                       gradients.dgates_step);
    if (i > 0) recurrent.backward_data(context.space, gradients.dgates_step, gradients.recurrent, scratch);
  }
  InnerProduct& input = input_products_.at(n * length);
  if (t.gradients[0]) {
    input.backward_weight(context.space, t.x[0], gradients.dgates, t.gradients[0], context.gradients, scratch);
    lstm_shift(context.space, t.y, gradients.before);
    history_products_.at(n * length)
        .backward_weight(context.space, gradients.before, gradients.dgates, t.gradients[1], context.gradients, scratch);
    bias_activation_backward(context.space, Activation::none, {}, gradients.dgates, t.gradients[2], context.gradients,
                             scratch);
    copy(context.space, t.gradients[2], t.gradients[3]);  // the two biases are added to the same sum
  }
  if (t.dx[0]) input.backward_data(context.space, gradients.dgates, t.dx[0], scratch);
}

}  // namespace lockstep
