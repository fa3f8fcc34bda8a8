// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/cross_attention.hpp"

#include <algorithm>

#include "ops/elementwise/elementwise.hpp"

namespace lockstep {
namespace {

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
