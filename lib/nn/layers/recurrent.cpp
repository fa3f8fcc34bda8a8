// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/recurrent.hpp"

#include <algorithm>

#include "ops/elementwise/elementwise.hpp"

namespace lockstep {
namespace {

/// Results of a direction's forward pass, besides its output, that backward reads.
struct Saved {
  Tensor state;  // [n, T, u]
  Tensor gates;  // [n, T, g·u], after their activations

  Saved(ScratchAllocator& memory, RecurrentCell cell, std::int64_t n, std::int64_t length, std::int64_t units,
        DType dtype)
      : state(memory.take(master_dtype(dtype), {n, length, units})),
        gates(memory.take(dtype, {n, length, gates_of(cell) * units})) {}
};

/// Buffers that hand results from one time step to the next.
struct ForwardStep {
  Tensor recurrent;  // [n, g·u]
  Tensor h;          // [n, u]

  ForwardStep(ScratchAllocator& memory, RecurrentCell cell, std::int64_t n, std::int64_t units, DType dtype)
      : recurrent(memory.take(dtype, {n, gates_of(cell) * units})), h(memory.take(dtype, {n, units})) {}
};

struct Gradients {
  RecurrentGradients steps;
  Tensor recurrent;  // [n, u]
  Tensor before;     // [n, T, u]: y of the previous time step
  Tensor dx;         // [n, T, in]: dx of a later direction, which is added to that of the first

  Gradients(ScratchAllocator& memory, RecurrentCell cell, std::int64_t n, const Shape& x, std::int64_t units,
            DType dtype, bool first)
      : recurrent(memory.take(dtype, {n, units})), before(memory.take(dtype, {n, x[0], units})) {
    const std::int64_t gates = gates_of(cell) * units;
    steps = {.dgates = memory.take(dtype, {n, x[0], gates}),
             .dhidden = {},
             .dstep = memory.take(dtype, {n, gates}),
             .carried = memory.take(master_dtype(dtype), {n, units})};
    if (cell == RecurrentCell::gru) steps.dhidden = memory.take(dtype, {n, x[0], gates});
    if (!first) dx = memory.take(dtype, {n, x[0], x[1]});
  }
};

}  // namespace

void RecurrentConfig::describe(Fields& fields) {
  fields.integer("units", units, {1, 1e9},
                 "number of hidden units per direction, which are the outputs at each position", Presence::required);
  fields.boolean("bidirectional", bidirectional,
                 "whether a second set of units reads the sequence from its end, with outputs concatenated to those of "
                 "the first: 2·units outputs");
}

std::unique_ptr<Layer> RecurrentConfig::make_layer() const { return std::make_unique<Recurrent>(*this); }

Shape Recurrent::output_shape(std::span<const Shape> inputs) const {
  validate(inputs[0].rank() == 2, ExitStatus::bad_deck,
           "{} reads sequences (positions×features), but its input is {}; put an embedding before it", type(),
           to_string(inputs[0]));
  return {inputs[0][0], units_ * static_cast<std::int64_t>(directions_.size())};
}

std::vector<ParameterSpec> Recurrent::parameters(std::span<const Shape> inputs) const {
  const Initializer start = Initializer::fan_in(units_);
  std::vector<ParameterSpec> specs;
  for (const char* suffix : {"", "_reverse"}) {
    if (specs.size() == recurrent_parameters * directions_.size()) break;
    const auto add = [&](const std::string& name, const Shape& shape) {
      specs.push_back({name + suffix, shape, start});
    };
    add("weight_ih", {gates(), inputs[0][1]});
    add("weight_hh", {gates(), units_});
    add("bias_ih", {gates()});
    add("bias_hh", {gates()});
  }
  return specs;
}

RecurrentShape Recurrent::sequence_shape(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {.cell = cell_,
          .n = n,
          .length = x[0],
          .in = x[1],
          .units = units_,
          .directions = static_cast<std::int64_t>(directions_.size()),
          .dtype = plan_.dtype};
}

InnerProductShape Recurrent::input_shape(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {.n = n * x[0], .in = x[1], .out = gates(), .dtype = plan_.dtype};
}

InnerProductShape Recurrent::step_shape(std::int64_t n) const {
  return {.n = n, .in = units_, .out = gates(), .dtype = plan_.dtype, .bias = false, .uses = plan_.inputs[0][0]};
}

InnerProductShape Recurrent::history_shape(std::int64_t n) const {
  return {.n = n * plan_.inputs[0][0], .in = units_, .out = gates(), .dtype = plan_.dtype, .bias = false};
}

double Recurrent::product_flops(std::int64_t n) const {
  return static_cast<double>(directions_.size()) * (input_shape(n).flops() + history_shape(n).flops());
}

void Recurrent::plan(const LayerPlan& plan) {
  Layer::plan(plan);
  const auto one = plan_sequence(sequence_shape(1));
  sequence_bytes_ = one ? align_up(one->saved_bytes()) : 0;
}

std::size_t Recurrent::saved_bytes(std::int64_t n, const Shape& output) const {
  ScratchAllocator memory;
  for (std::size_t i = 0; i < directions_.size(); ++i) Saved(memory, cell_, n, output[0], units_, plan_.dtype);
  return std::max(memory.used(), static_cast<std::size_t>(n) * sequence_bytes_);
}

std::size_t Recurrent::prepare(std::int64_t n) {
  const auto [place, is_new] = sequences_.try_emplace(n);
  std::unique_ptr<RecurrentSequence>& sequence = place->second;
  if (is_new) sequence = plan_sequence(sequence_shape(n));
  // The saved memory of a batch has room for n times what one example saves; a library that needs more is not used.
  if (sequence && sequence->saved_bytes() > saved_bytes(n, plan_.output)) sequence = nullptr;
  return sequence ? sequence->workspace_bytes() : prepare_steps(n);
}

std::size_t Recurrent::prepare_steps(std::int64_t n) {
  const Shape& x = plan_.inputs[0];
  std::size_t products = bias_workspace_bytes(plan_.dtype, n * x[0], gates());
  const auto plan = [&](PlanCache<InnerProduct>& planned, const InnerProductShape& shape) {
    const InnerProduct& product = planned.prepare(
        shape.n, [&](std::int64_t) { return plan_inner_product(plan_.providers, shape); });
    products = std::max(products, product.workspace_bytes());
  };
  for (Direction& direction : directions_) {
    plan(direction.input, input_shape(n));
    plan(direction.step, step_shape(n));
    plan(direction.history, history_shape(n));
  }
  ScratchAllocator forward, backward;
  const Saved saved(forward, cell_, n, x[0], units_, plan_.dtype);  // if there is no saved memory, as in evaluation
  const ForwardStep step(forward, cell_, n, units_, plan_.dtype);
  const Gradients gradients(backward, cell_, n, x, units_, plan_.dtype, directions_.size() == 1);
  return std::max(forward.used(), backward.used()) + products;
}

void Recurrent::set_weights(std::span<const Tensor> weights) {
  weights_.assign(weights.begin(), weights.end());
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    directions_[i].input.set_weight(weights[recurrent_parameters * i]);
    directions_[i].step.set_weight(weights[recurrent_parameters * i + 1]);
  }
}

RecurrentStep Recurrent::step_of(std::size_t direction, std::int64_t i) const {
  if (direction == 0) return {.t = i, .before = i - 1, .column = 0};
  const std::int64_t t = plan_.inputs[0][0] - 1 - i;
  return {.t = t, .before = i == 0 ? -1 : t + 1, .column = units_};
}

void Recurrent::forward(const PassContext& context, const LayerTensors& t) {
  if (RecurrentSequence* sequence = sequences_.at(t.y.shape[0]).get())
    return sequence->forward(context.space, {weights_, t.x[0], t.y, t.saved, t.workspace});
  ScratchAllocator saved(t.saved);
  for (std::size_t i = 0; i < directions_.size(); ++i) run(i, context, t, saved);
}

void Recurrent::run(std::size_t direction, const PassContext& context, const LayerTensors& t, ScratchAllocator& saved) {
  const std::int64_t n = t.y.shape[0], length = t.y.shape[1];
  ScratchAllocator workspace(t.workspace);
  const Saved parts(t.saved ? saved : workspace, cell_, n, length, units_, plan_.dtype);
  const ForwardStep step(workspace, cell_, n, units_, plan_.dtype);
  const Tensor scratch = workspace.rest();
  const auto parameters = t.parameters.subspan(recurrent_parameters * direction, recurrent_parameters);
  Direction& products = directions_[direction];
  products.input.at(n * length).forward(context.space, t.x[0], parameters[2], parts.gates, scratch);
  InnerProduct& recurrent = products.step.at(n);
  for (std::int64_t i = 0; i < length; ++i) {
    if (i > 0) recurrent.forward(context.space, step.h, {}, step.recurrent, scratch);
    recurrent_forward_step(context.space, cell_, step_of(direction, i), parts.gates, i > 0 ? step.recurrent : Tensor{},
                           parameters[3], parts.state, t.y, step.h);
  }
}

void Recurrent::backward(const PassContext& context, const LayerTensors& t) {
  if (RecurrentSequence* sequence = sequences_.at(t.dy.shape[0]).get())
    return sequence->backward(context.space, {weights_, t.x[0], t.y, t.saved, t.workspace}, t.dy, t.dx[0], t.gradients,
                              context.gradients);
  ScratchAllocator saved(t.saved);
  for (std::size_t i = 0; i < directions_.size(); ++i) run_back(i, context, t, saved);
}

void Recurrent::run_back(std::size_t direction, const PassContext& context, const LayerTensors& t,
                         ScratchAllocator& saved) {
  const std::int64_t n = t.dy.shape[0], length = t.dy.shape[1];
  ScratchAllocator workspace(t.workspace);
  const Saved parts(saved, cell_, n, length, units_, plan_.dtype);
  const Gradients d(workspace, cell_, n, plan_.inputs[0], units_, plan_.dtype, direction == 0);
  const Tensor scratch = workspace.rest();
  Direction& products = directions_[direction];
  InnerProduct& recurrent = products.step.at(n);
  for (std::int64_t i = length; i-- > 0;) {
    recurrent_backward_step(context.space, cell_, step_of(direction, i), parts.gates, parts.state, t.y, t.dy,
                            i + 1 < length ? d.recurrent : Tensor{}, d.steps);
    if (i > 0) recurrent.backward_data(context.space, d.steps.dstep, d.recurrent, scratch);
  }
  InnerProduct& input = products.input.at(n * length);
  const auto gradients = t.gradients.subspan(recurrent_parameters * direction, recurrent_parameters);
  if (gradients[0]) {
    const bool apart = static_cast<bool>(d.steps.dhidden);
    const Tensor& dhidden = apart ? d.steps.dhidden : d.steps.dgates;
    const auto add_up = [&](const Tensor& dy, const Tensor& dbias) {
      bias_activation_backward(context.space, Activation::none, {}, dy, dbias, context.gradients, scratch);
    };
    input.backward_weight(context.space, t.x[0], d.steps.dgates, gradients[0], context.gradients, scratch);
    recurrent_shift(context.space, direction == 0 ? -1 : 1, step_of(direction, 0).column, t.y, d.before);
    products.history.at(n * length)
        .backward_weight(context.space, d.before, dhidden, gradients[1], context.gradients, scratch);
    add_up(d.steps.dgates, gradients[2]);
    if (apart) add_up(dhidden, gradients[3]);
    else copy(context.space, gradients[2], gradients[3]);  // both biases have the same gradient
  }
  if (!t.dx[0]) return;
  const Tensor dx = direction == 0 ? t.dx[0] : d.dx;
  input.backward_data(context.space, d.steps.dgates, dx, scratch);
  if (direction > 0) accumulate(context.space, dx, t.dx[0]);
}

}  // namespace lockstep
