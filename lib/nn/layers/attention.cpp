// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/attention.hpp"

#include <algorithm>
#include <cmath>

#include "ops/elementwise/elementwise.hpp"
#include "ops/sequence/embedding.hpp"

namespace lockstep {
namespace {

/// Intermediate results of the forward pass, which backward reads; also the gradients of these.
struct AttentionSaved {
  Tensor logsumexp;  // [n, heads, T]
  Tensor qkv;        // [n, T, 3·d]
  Tensor heads;      // [n, T, d]: outputs of all heads, side by side

  AttentionSaved(ScratchAllocator& memory, std::int64_t n, std::int64_t heads_count, std::int64_t length,
                 std::int64_t d, DType dtype)
      : logsumexp(memory.take(master_dtype(dtype), {n, heads_count, length})),
        qkv(memory.take(dtype, {n, length, 3 * d})),
        heads(memory.take(dtype, {n, length, d})) {}
};

}  // namespace

void AttentionConfig::describe(Fields& fields) {
  fields.integer("heads", heads, {1, 1e6}, "number of heads, among which the features of a position are divided evenly",
                 Presence::required);
  fields.boolean("causal", causal, "whether each position attends only to itself and to those before it");
  fields.boolean(
      "rotary", rotary,
      "whether queries and keys are rotated by their positions (rotary position embedding: RoFormer, LLaMA)");
  fields.number(
      "rotary_base", rotary_base, positive,
      "base of the rotary angles t·rotary_base^(−2i/w), of position t and pair i of the w features of a head");
  fields.number("initial_std", initial_std, {0, 1e6},
                "standard deviation of the initial weights, N(0, initial_std²), with biases of 0 (0: as PyTorch's "
                "MultiheadAttention)");
  fields.number("out_initial_std", out_initial_std, {0, 1e6},
                "standard deviation of the initial weight of the output projection (0: as the other weights)");
}

std::unique_ptr<Layer> AttentionConfig::make_layer() const { return std::make_unique<Attention>(*this); }

void check_attention_input(std::string_view type, const Shape& input, std::int64_t heads) {
  validate(input.rank() == 2, ExitStatus::bad_deck,
           "{} reads sequences (positions×features), but its input is {}; put an embedding before it", type,
           to_string(input));
  validate(
      input[1] % heads == 0, ExitStatus::bad_deck,
      "{} features cannot be divided among {} heads (each takes the same number); use a number of heads that divides "
      "{}",
      input[1], heads, input[1]);
}

std::vector<ParameterSpec> attention_parameters(std::int64_t d, double initial_std, double out_initial_std) {
  // PyTorch's initialization: qkv as in Glorot & Bengio, "Understanding the difficulty of training deep feedforward
  // neural networks", 2010, with the fans of the whole weight; the output weight as in a linear layer; biases 0.
  const auto start = [&](double std, const Initializer& usual) { return std > 0 ? Initializer::normal(std) : usual; };
  return {
      {"qkv_weight", {3 * d, d}, start(initial_std, Initializer::uniform(std::sqrt(6.0 / static_cast<double>(4 * d))))},
      {"qkv_bias", {3 * d}, Initializer::constant(0)},
      {"out_weight", {d, d}, start(out_initial_std, Initializer::fan_in(d))},
      {"out_bias", {d}, Initializer::constant(0)}};
}

Shape Attention::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = inputs[0];
  check_attention_input(type(), input, config_.heads);
  validate(
      !config_.rotary || input[1] / config_.heads % 2 == 0, ExitStatus::bad_deck,
      "heads of {} features cannot be rotated (rotary rotates pairs of features); use a number of heads that gives "
      "each an even number",
      input[1] / config_.heads);
  return input;
}

std::vector<ParameterSpec> Attention::parameters(std::span<const Shape> inputs) const {
  const double out_std = config_.out_initial_std > 0 ? config_.out_initial_std : config_.initial_std;
  return attention_parameters(inputs[0][1], config_.initial_std, out_std);
}

AttentionShape Attention::product(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {n, x[0], config_.heads, x[1] / config_.heads, config_.causal, plan_.dtype};
}

InnerProductShape Attention::qkv_shape(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {.n = n * x[0], .in = x[1], .out = 3 * x[1], .dtype = plan_.dtype};
}

InnerProductShape Attention::out_shape(std::int64_t n) const {
  const Shape& x = plan_.inputs[0];
  return {.n = n * x[0], .in = x[1], .out = x[1], .dtype = plan_.dtype};
}

double Attention::product_flops(std::int64_t n) const {
  return qkv_shape(n).flops() + out_shape(n).flops() + product(n).flops();
}

std::size_t Attention::saved_bytes(std::int64_t n, const Shape& output) const {
  ScratchAllocator memory;
  const AttentionSaved parts(memory, n, config_.heads, output[0], output[1], plan_.dtype);
  return memory.used();
}

std::size_t Attention::prepare(std::int64_t n) {
  const AttentionShape shape = product(n);
  const std::int64_t rows = n * shape.length, d = shape.width();
  const auto& qkv = qkv_products_.prepare(
      rows, [&](std::int64_t) { return plan_inner_product(plan_.providers, qkv_shape(n)); });
  const auto& out = out_products_.prepare(
      rows, [&](std::int64_t) { return plan_inner_product(plan_.providers, out_shape(n)); });
  const auto& attention = attentions_.prepare(n, [&](std::int64_t) { return plan_attention(plan_.providers, shape); });
  ScratchAllocator memory;  // for tensors saved in evaluation, which has no saved memory, or for gradients in backward
  const AttentionSaved parts(memory, n, shape.heads, shape.length, d, plan_.dtype);
  return memory.used() + std::max({qkv.workspace_bytes(), out.workspace_bytes(), attention.workspace_bytes(),
                                   bias_workspace_bytes(plan_.dtype, rows, 3 * d)});
}

void Attention::allocate() {
  if (!config_.rotary) return;
  const AttentionShape shape = product(1);
  waves_ = OwnedTensor("lockstep::attention::waves", plan_.master(), {shape.length, shape.head_size});
  rotary_waves(ExecSpace(), config_.rotary_base, waves_.get());
  ExecSpace().fence("lockstep::attention::waves");
}

void Attention::set_weights(std::span<const Tensor> weights) {
  qkv_products_.set_weight(weights[0]);
  out_products_.set_weight(weights[2]);
}

void Attention::forward(const PassContext& context, const LayerTensors& t) {
  const AttentionShape shape = product(t.y.shape[0]);
  const std::int64_t rows = shape.n * shape.length;
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const AttentionSaved spare(workspace, shape.n, shape.heads, shape.length, shape.width(), plan_.dtype);
  const AttentionSaved parts = t.saved ? AttentionSaved(saved, shape.n, shape.heads, shape.length, shape.width(),
                                                        plan_.dtype)
                                       : spare;
  qkv_products_.at(rows).forward(context.space, t.x[0], t.parameters[1], parts.qkv, workspace.rest());
  if (config_.rotary) rotate(context.space, Rotation::forward, shape.heads, waves_.get(), parts.qkv);
  attentions_.at(shape.n).forward(context.space, parts.qkv, {}, parts.heads, parts.logsumexp, workspace.rest());
  out_products_.at(rows).forward(context.space, parts.heads, t.parameters[3], t.y, workspace.rest());
}

void Attention::backward(const PassContext& context, const LayerTensors& t) {
  const AttentionShape shape = product(t.dy.shape[0]);
  const std::int64_t rows = shape.n * shape.length;
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const AttentionSaved parts(saved, shape.n, shape.heads, shape.length, shape.width(), plan_.dtype);
  const AttentionSaved gradient(workspace, shape.n, shape.heads, shape.length, shape.width(), plan_.dtype);
  const Tensor scratch = workspace.rest();
  InnerProduct& qkv = qkv_products_.at(rows);
  InnerProduct& out = out_products_.at(rows);

  bias_activation_backward(context.space, Activation::none, {}, t.dy, t.gradients[3], context.gradients, scratch);
  if (t.gradients[2]) out.backward_weight(context.space, parts.heads, t.dy, t.gradients[2], context.gradients, scratch);
  out.backward_data(context.space, t.dy, gradient.heads, scratch);
  attentions_.at(shape.n).backward(context.space, parts.qkv, {}, parts.heads, parts.logsumexp, gradient.heads,
                                   gradient.qkv, {}, scratch);
  if (config_.rotary) rotate(context.space, Rotation::inverse, shape.heads, waves_.get(), gradient.qkv);
  bias_activation_backward(context.space, Activation::none, {}, gradient.qkv, t.gradients[1], context.gradients,
                           scratch);
  if (t.gradients[0])
    qkv.backward_weight(context.space, t.x[0], gradient.qkv, t.gradients[0], context.gradients, scratch);
  if (t.dx[0]) qkv.backward_data(context.space, gradient.qkv, t.dx[0], scratch);
}

}  // namespace lockstep
