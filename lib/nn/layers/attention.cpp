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

/// Intermediate results of the forward pass, which backward reads, or the gradients of these.
struct Parts {
  Tensor logsumexp;  // [n, heads, T]
  Tensor q;          // [n, T, d]
  Tensor kv;         // [n, S, 2·d]
  Tensor heads;      // [n, T, d]: outputs of all heads, side by side

  Parts(ScratchAllocator& memory, const AttentionShape& s)
      : logsumexp(memory.take(master_dtype(s.dtype), {s.n, s.heads, s.length})),
        q(memory.take(s.dtype, {s.n, s.length, s.width()})),
        kv(memory.take(s.dtype, {s.n, s.memory, 2 * s.width()})),
        heads(memory.take(s.dtype, {s.n, s.length, s.width()})) {}
};

/// Returns `thirds` thirds of a weight [3·d, d] or bias [3·d], starting with third number `first`.
Tensor thirds_of(const Tensor& all, std::int64_t first, std::int64_t thirds) {
  if (!all) return {};
  const std::size_t third = all.bytes() / 3;
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first) * third, all.dtype,
          all.shape.of_example().with_batch(all.shape[0] / 3 * thirds)};
}
Tensor q_of(const Tensor& all) { return thirds_of(all, 0, 1); }
Tensor kv_of(const Tensor& all) { return thirds_of(all, 1, 2); }

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

void CrossAttentionConfig::describe(Fields& fields) {
  fields.integer("heads", heads, {1, 1e6}, "number of heads, among which the features of a position are divided evenly",
                 Presence::required);
  fields.number("initial_std", initial_std, {0, 1e6},
                "standard deviation of the initial weights, N(0, initial_std²), with biases of 0 (0: as PyTorch's "
                "MultiheadAttention)");
}

std::unique_ptr<Layer> CrossAttentionConfig::make_layer() const { return std::make_unique<CrossAttention>(*this); }

Shape CrossAttention::output_shape(std::span<const Shape> inputs) const {
  validate(inputs.size() == 2, ExitStatus::bad_deck,
           "cross_attention has 1 input (it needs a sequence and the one it attends to); name both: from: [x, "
           "memory]");
  for (const Shape& input : inputs) check_attention_input(type(), input, config_.heads);
  validate(
      inputs[0][1] == inputs[1][1], ExitStatus::bad_deck,
      "its inputs have {} and {} features (they must have the same number); give one the width of the other with a "
      "linear layer",
      inputs[0][1], inputs[1][1]);
  return inputs[0];
}

std::vector<ParameterSpec> CrossAttention::parameters(std::span<const Shape> inputs) const {
  return attention_parameters(inputs[0][1], config_.initial_std, config_.initial_std);
}

AttentionShape CrossAttention::product(std::int64_t n) const {
  const Shape &x = plan_.inputs[0], &memory = plan_.inputs[1];
  return {.n = n,
          .length = x[0],
          .heads = config_.heads,
          .head_size = x[1] / config_.heads,
          .causal = false,
          .dtype = plan_.dtype,
          .memory = memory[0]};
}

InnerProductShape CrossAttention::product_of(std::int64_t n, std::size_t input, std::int64_t parts) const {
  const Shape& x = plan_.inputs[input];
  return {.n = n * x[0], .in = x[1], .out = parts * x[1], .dtype = plan_.dtype};
}

double CrossAttention::product_flops(std::int64_t n) const {
  return 2 * product_of(n, 0, 1).flops() + product_of(n, 1, 2).flops() + product(n).flops();
}

std::size_t CrossAttention::saved_bytes(std::int64_t n, const Shape&) const {
  ScratchAllocator memory;
  const Parts parts(memory, product(n));
  return memory.used();
}

std::size_t CrossAttention::prepare(std::int64_t n) {
  std::size_t products = 0;
  const auto plan = [&](PlanCache<InnerProduct>& planned, const InnerProductShape& shape) {
    const InnerProduct& product = planned.prepare(
        shape.n, [&](std::int64_t) { return plan_inner_product(plan_.providers, shape); });
    products = std::max({products, product.workspace_bytes(), bias_workspace_bytes(plan_.dtype, shape.n, shape.out)});
  };
  plan(q_products_, product_of(n, 0, 1));
  plan(kv_products_, product_of(n, 1, 2));
  plan(out_products_, product_of(n, 0, 1));
  const auto& attention = attentions_.prepare(
      n, [&](std::int64_t) { return plan_attention(plan_.providers, product(n)); });
  ScratchAllocator memory;  // for tensors saved in evaluation, which has no saved memory, or for gradients in backward
  const Parts parts(memory, product(n));
  return memory.used() + std::max(products, attention.workspace_bytes());
}

void CrossAttention::set_weights(std::span<const Tensor> weights) {
  q_products_.set_weight(q_of(weights[0]));
  kv_products_.set_weight(kv_of(weights[0]));
  out_products_.set_weight(weights[2]);
}

void CrossAttention::forward(const PassContext& context, const LayerTensors& t) {
  const AttentionShape shape = product(t.y.shape[0]);
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const Parts parts(t.saved ? saved : workspace, shape);
  const Tensor scratch = workspace.rest();
  const std::int64_t rows = shape.n * shape.length;
  q_products_.at(rows).forward(context.space, t.x[0], q_of(t.parameters[1]), parts.q, scratch);
  kv_products_.at(shape.n * shape.memory).forward(context.space, t.x[1], kv_of(t.parameters[1]), parts.kv, scratch);
  attentions_.at(shape.n).forward(context.space, parts.q, parts.kv, parts.heads, parts.logsumexp, scratch);
  out_products_.at(rows).forward(context.space, parts.heads, t.parameters[3], t.y, scratch);
}

void CrossAttention::backward(const PassContext& context, const LayerTensors& t) {
  const AttentionShape shape = product(t.dy.shape[0]);
  ScratchAllocator saved(t.saved), workspace(t.workspace);
  const Parts parts(saved, shape), gradient(workspace, shape);
  const Tensor scratch = workspace.rest();
  // Backward pass of one linear layer with input x and output gradient dy.
  const auto go_back = [&](InnerProduct& product, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                           const Tensor& dbias, const Tensor& dx) {
    bias_activation_backward(context.space, Activation::none, {}, dy, dbias, context.gradients, scratch);
    if (dweight) product.backward_weight(context.space, x, dy, dweight, context.gradients, scratch);
    if (dx) product.backward_data(context.space, dy, dx, scratch);
  };
  const std::int64_t rows = shape.n * shape.length;
  go_back(out_products_.at(rows), parts.heads, t.dy, t.gradients[2], t.gradients[3], gradient.heads);
  attentions_.at(shape.n).backward(context.space, parts.q, parts.kv, parts.heads, parts.logsumexp, gradient.heads,
                                   gradient.q, gradient.kv, scratch);
  go_back(q_products_.at(rows), t.x[0], gradient.q, q_of(t.gradients[0]), q_of(t.gradients[1]), t.dx[0]);
  go_back(kv_products_.at(shape.n * shape.memory), t.x[1], gradient.kv, kv_of(t.gradients[0]), kv_of(t.gradients[1]),
          t.dx[1]);
}

}  // namespace lockstep
