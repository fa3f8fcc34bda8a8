// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/model.hpp"

#include <algorithm>
#include <array>

#include "ops/elementwise.hpp"

namespace lockstep {
Model::Model(Graph graph, const Options& options)
    : graph_(std::move(graph)),
      options_(options),
      parameters_(graph_, options.dtype),
      plan_(plan_activations(graph_, options.dtype, options.max_batch, options.purpose)),
      arena_("lockstep::activations", plan_.bytes) {
  auto& nodes = graph_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].layer->plan({nodes[i].input_shapes, nodes[i].shape, options.dtype, options.providers, i});
  }
  prepare(options.max_batch);
}

void Model::prepare(std::int64_t n) {
  if (!prepared_.insert(n).second) return;
  std::size_t bytes = workspace_.size();
  for (auto& node : graph_.nodes())
    if (!node.view) bytes = std::max(bytes, node.layer->prepare(n));
  if (bytes > workspace_.size()) workspace_ = Buffer("lockstep::workspace", bytes);
}

Tensor Model::place(std::size_t offset, const Shape& shape) const {
  return offset == ActivationPlan::no_place ? Tensor{} : arena_.tensor(offset, options_.dtype, shape);
}

Tensor Model::output_of(int node, const Tensor& input) const {
  if (node == GraphNode::data) return input;
  const auto i = static_cast<std::size_t>(node);
  const Shape shape = graph_.nodes()[i].shape.with_batch(batch_);
  return plan_.owner[i] == GraphNode::data ? input.reshaped(shape)
                                           : place(plan_.output[static_cast<std::size_t>(plan_.owner[i])], shape);
}

Tensor Model::forward(const StepContext& context, const Tensor& input) {
  batch_ = input.shape[0];
  prepare(batch_);
  const Tensor workspace = workspace_.tensor(0, DType::u8, {static_cast<std::int64_t>(workspace_.size())});
  const auto& nodes = graph_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = nodes[i];
    if (node.view) continue;
    node.layer->set_weights(parameters_.weights_of(i));
    std::array<Tensor, max_layer_inputs> x;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) x[k] = output_of(node.inputs[k], input);
    LayerTensors tensors{.x = {x.data(), node.inputs.size()},
                         .y = output_of(static_cast<int>(i), input),
                         .parameters = parameters_.values_of(i),
                         .workspace = workspace};
    if (plan_.saved[i] != ActivationPlan::no_place)
      tensors.saved = arena_.tensor(plan_.saved[i], DType::u8, {static_cast<std::int64_t>(node.layer->saved_bytes(batch_, node.shape))});
    node.layer->forward(context, tensors);
  }
  return output_of(static_cast<int>(nodes.size()) - 1, input);
}

Tensor Model::output_gradient() const {
  const int owner = plan_.owner.back();
  return owner == GraphNode::data ? Tensor{}
                                  : place(plan_.gradient[static_cast<std::size_t>(owner)], graph_.output_shape().with_batch(batch_));
}

void Model::backward(const StepContext& context, const Tensor& input, const Ready& ready) {
  const Tensor workspace = workspace_.tensor(0, DType::u8, {static_cast<std::int64_t>(workspace_.size())});
  const auto& nodes = graph_.nodes();
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const GraphNode& node = nodes[i];
    if (node.view) continue;
    std::array<Tensor, max_layer_inputs> x, dx, gradient;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      x[k] = output_of(node.inputs[k], input);
      const int owner = node.inputs[k] == GraphNode::data ? GraphNode::data : plan_.owner[static_cast<std::size_t>(node.inputs[k])];
      if (owner == GraphNode::data) continue;
      gradient[k] = place(plan_.gradient[static_cast<std::size_t>(owner)], x[k].shape);
      const std::size_t detour = plan_.detour[i][k];
      dx[k] = detour == ActivationPlan::no_place ? gradient[k] : place(detour, x[k].shape);
    }
    LayerTensors tensors{.x = {x.data(), node.inputs.size()},
                         .y = output_of(static_cast<int>(i), input),
                         .dx = {dx.data(), node.inputs.size()},
                         .dy = place(plan_.gradient[i], node.shape.with_batch(batch_)),
                         .parameters = parameters_.values_of(i),
                         .gradients = parameters_.gradients_of(i),
                         .workspace = workspace};
    if (plan_.saved[i] != ActivationPlan::no_place)
      tensors.saved = arena_.tensor(plan_.saved[i], DType::u8, {static_cast<std::int64_t>(node.layer->saved_bytes(batch_, node.shape))});
    node.layer->backward(context, tensors);
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (plan_.detour[i][k] != ActivationPlan::no_place) accumulate(context.space, dx[k], gradient[k]);
    if (const ParameterRange range = parameters_.range_of(i); range.count > 0) ready(range);
  }
}

double training_flops(const Graph& graph, const ActivationPlan& plan, std::int64_t n) {
  double flops = 0;
  for (const GraphNode& node : graph.nodes()) {
    const bool wants_dx = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
      return input != GraphNode::data && plan.owner[static_cast<std::size_t>(input)] != GraphNode::data;
    });
    flops += node.layer->product_flops(n) * (wants_dx ? 3 : 2);
  }
  return flops;
}

}  // namespace lockstep
