// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/model.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "nn/plan/execution_plan.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/reduction.hpp"

namespace lockstep {
namespace {

using Inputs = std::array<Tensor, max_layer_inputs>;

/// Returns examples [first, first + count) of a tensor whose first dimension counts examples.
Tensor examples_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  const Shape example = tensor.shape.of_example();
  const auto bytes = static_cast<std::size_t>(example.count()) * size_of(tensor.dtype);
  return {static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(first) * bytes, tensor.dtype,
          example.with_batch(count)};
}

std::pair<Graph, ExecutionPlan> planned(Graph graph, const Model::Options& options) {
  ExecutionPlan plan = plan_model(graph, options);
  return {std::move(graph), std::move(plan)};
}

}  // namespace

InputCheck::InputCheck(const Graph& graph, std::int64_t max_batch)
    : rows_of_example_(graph.output_shape().rows()), flags_("lockstep::bad_examples", DType::i32, {max_batch}) {
  const std::vector<std::int64_t> tables = graph.tables_of_data();
  if (tables.empty()) return;
  tables_ = OwnedTensor("lockstep::tables_of_data", DType::i64, {static_cast<std::int64_t>(tables.size())});
  copy_from_host(ExecSpace(), tables.data(), tables_.get());
}

void InputCheck::inspect(const ExecSpace& space, const Tensor& input) {
  inspects_ = input.dtype != DType::i32 && input.shape[0] > 0;
  if (inspects_) flag_nonfinite_examples(space, input, tables_.get(), flags_.get());
}

void InputCheck::mark(const ExecSpace& space, std::int64_t first, const Tensor& outputs) const {
  if (inspects_) spoil_flagged_examples(space, flags_.get(), first, rows_of_example_, outputs);
}

Model::Model(Graph graph, const Options& options) : Model(planned(std::move(graph), options), options) {}

Model::Model(std::pair<Graph, ExecutionPlan> planned, const Options& options)
    : Model(std::move(planned.first), options, std::move(planned.second)) {}

Model::Model(Graph graph, const Options& options, ExecutionPlan plan)
    : graph_(std::move(graph)),
      options_(options),
      plan_(std::move(plan)),
      parameters_(graph_.layer_specs(), options.dtype, options.memory, options.windows),
      arena_("lockstep::activations", plan_.bytes),
      input_check_(graph_, options.max_batch) {
  for (const GraphNode& node : graph_.nodes()) node.layer->allocate();
  prepare(options.max_batch);
}

ExecutionPlan plan_model(Graph& graph, const Model::Options& options) {
  const std::int64_t tile_rows = options.tile_bytes > 0
                                     ? choose_tile_rows(graph, options.dtype, options.max_batch, options.tile_bytes)
                                     : 0;
  for (auto& node : graph.nodes()) {
    const bool of_rows = tile_rows > 0 && &node == &graph.nodes().back();
    node.layer->plan({of_rows ? std::vector{Shape{node.input_shapes[0][-1]}} : node.input_shapes,
                      of_rows ? Shape{node.shape[-1]} : node.shape, options.dtype, options.providers, node.number});
  }
  return plan_step(graph, options.dtype, options.max_batch, options.purpose, options.checkpointing, tile_rows);
}

int backward_products(const GraphNode& node, const ExecutionPlan& plan) {
  const bool wants_dx = std::ranges::any_of(node.inputs, [&](int input) {
    return input != GraphNode::data && plan.needs_gradient[static_cast<std::size_t>(input)];
  });
  return (wants_dx ? 1 : 0) + (node.frozen ? 0 : 1);
}

double training_flops(const Graph& graph, const ExecutionPlan& plan, std::int64_t n) {
  double flops = 0;
  for (const GraphNode& node : graph.nodes()) {
    const bool of_rows = plan.tile_rows > 0 && &node == &graph.nodes().back();
    flops += node.layer->product_flops(of_rows ? output_rows(graph, n) : n) * (1 + backward_products(node, plan));
  }
  return flops;
}

std::size_t prepare_layers(Graph& graph, const ExecutionPlan& plan, std::int64_t n) {
  std::size_t workspace = 0;
  for (const auto* segments : {&plan.forward, &plan.backward})
    for (const Segment& segment : *segments)
      for (const std::int64_t size : {std::min(segment.chunk, n), n % segment.chunk}) {
        if (size == 0) continue;
        for (const Task& task : segment.tasks)
          workspace = std::max(workspace, graph.nodes()[static_cast<std::size_t>(task.node)].layer->prepare(size));
      }
  if (const std::int64_t rows = output_rows(graph, n), tile = plan.tile_rows; tile > 0)
    for (const std::int64_t size : {std::min(tile, rows), rows % tile})
      if (size > 0) workspace = std::max(workspace, graph.nodes().back().layer->prepare(size));
  return workspace;
}

void Model::prepare(std::int64_t n) {
  if (prepared_.contains(n)) return;
  const std::size_t bytes = prepare_layers(graph_, plan_, n);
  if (bytes > workspace_.size()) workspace_ = Buffer("lockstep::workspace", bytes);
  prepared_.insert(n);
}

Tensor Model::at(const Allocation& place, const Shape& example, const Chunk& chunk) const {
  if (!place) return {};
  const auto bytes = static_cast<std::size_t>(example.count()) * size_of(options_.dtype);
  const std::size_t before = place.whole ? static_cast<std::size_t>(chunk.first) * bytes : 0;
  return arena_.tensor(place.offset + before, options_.dtype, example.with_batch(chunk.count));
}

Tensor Model::output_of(int node, const Chunk& chunk, const Tensor& input, bool backward) const {
  if (node == GraphNode::data) return examples_of(input, chunk.first, chunk.count);
  const auto i = static_cast<std::size_t>(node);
  const Shape& shape = graph_.nodes()[i].shape;
  if (plan_.owner[i] == GraphNode::data)
    return examples_of(input, chunk.first, chunk.count).reshaped(shape.with_batch(chunk.count));
  const auto owner = static_cast<std::size_t>(plan_.owner[i]);
  return at(backward && plan_.recomputed_output[owner] ? plan_.recomputed_output[owner] : plan_.output[owner], shape,
            chunk);
}

LayerTensors Model::tensors_of(std::size_t node, std::span<const Tensor> x, const Tensor& y, const Chunk& chunk,
                               bool backward) const {
  LayerTensors tensors{.x = x,
                       .y = y,
                       .parameters = parameters_.of_layer(node).values,
                       .workspace = workspace_.tensor(0, DType::u8, {static_cast<std::int64_t>(workspace_.size())})};
  if (const Allocation& place = backward && plan_.recomputed_saved[node] ? plan_.recomputed_saved[node]
                                                                         : plan_.saved[node]) {
    const GraphNode& layer = graph_.nodes()[node];
    const std::size_t before = place.whole ? static_cast<std::size_t>(chunk.first) * ExecutionPlan::saved_stride(layer)
                                           : 0;
    tensors.saved = arena_.tensor(place.offset + before, DType::u8,
                                  {static_cast<std::int64_t>(layer.layer->saved_bytes(chunk.count, layer.shape))});
  }
  return tensors;
}

template <class Visit>
void Model::for_chunks(const Segment& segment, Visit visit) const {
  for (std::int64_t first = 0; first < batch_; first += segment.chunk)
    for (const Task& task : segment.tasks) visit(task, Chunk{first, std::min(segment.chunk, batch_ - first)});
}

Tensor Model::forward(const PassContext& context, const Tensor& input) {
  assert(plan_.tile_rows == 0);
  run_segments(context, input);
  const Tensor output = output_of(static_cast<int>(graph_.nodes().size()) - 1, {0, batch_}, input, false);
  if (batch_ > 0)
    input_check_.mark(context.space, 0, output.reshaped({output_rows(graph_, batch_), graph_.output_shape()[-1]}));
  return output;
}

void Model::forward(const PassContext& context, const Tensor& input, const UseOutput& use) {
  if (plan_.tile_rows == 0) {
    const Tensor output = forward(context, input);
    if (batch_ > 0) use({.values = output, .gradient = context.training ? output_gradient() : Tensor{}});
    return;
  }
  run_segments(context, input);
  run_tiles(context, input, use);
}

/// Runs the last layer one tile of rows at a time: forward, the consumer of the output, and backward.
void Model::run_tiles(const PassContext& context, const Tensor& input, const UseOutput& use) {
  const std::size_t i = graph_.nodes().size() - 1;
  const GraphNode& node = graph_.nodes()[i];
  const std::int64_t all = output_rows(graph_, batch_), inputs = node.input_shapes[0][-1], outputs = node.shape[-1];
  if (all == 0) return;
  begin_layer(context, i);
  const Tensor x = output_of(node.inputs[0], {0, batch_}, input, false).reshaped({all, inputs});
  Tensor dx;
  if (plan_.writes_gradient(graph_, {Task::Kind::backward, static_cast<int>(i)}, 0))
    dx = at(plan_.gradient[static_cast<std::size_t>(plan_.owner[static_cast<std::size_t>(node.inputs[0])])],
            node.input_shapes[0], {0, batch_})
             .reshaped({all, inputs});
  for (std::int64_t first = 0; first < all; first += plan_.tile_rows) {
    const std::int64_t rows = std::min(plan_.tile_rows, all - first);
    const Tensor tile = at(plan_.output[i], Shape{outputs}, {0, rows});
    const Tensor x_rows = examples_of(x, first, rows);
    LayerTensors tensors = tensors_of(i, {&x_rows, 1}, tile, {0, rows}, false);
    node.layer->forward(context, tensors);
    input_check_.mark(context.space, first, tile);
    use({.values = tile,
         .gradient = context.training ? tile : Tensor{},
         .first = first,
         .whole = false,
         .last = first + rows == all});
    if (!context.training) continue;
    const Tensor dx_rows = dx ? examples_of(dx, first, rows) : Tensor{};
    tensors.dx = {&dx_rows, 1};
    tensors.dy = tile;
    tensors.gradients = parameters_.of_layer(i).gradients;
    PassContext part = context;
    if (first > 0 || node.lends) part.gradients = Store::add;
    node.layer->backward(part, tensors);
  }
}

void Model::run_segments(const PassContext& context, const Tensor& input) {
  batch_ = input.shape[0];
  prepare(batch_);
  input_check_.inspect(context.space, input);
  auto& nodes = graph_.nodes();
  for (std::size_t i = 0; i < nodes.size() && !context.same_parameters; ++i)
    if (!nodes[i].view) nodes[i].layer->set_weights(parameters_.of_layer(i).weights);
  int time = 0;
  for (const Segment& segment : plan_.forward) {
    enter(context, time++);
    statistics_.await(context, graph_, segment);
    // A rank without examples waits for the same parameters in the same order as the others, because parameters do not
    // travel while ranks wait for batch statistics.
    if (batch_ == 0)
      for (const Task& task : segment.tasks) begin_layer(context, static_cast<std::size_t>(task.node));
    for_chunks(segment, [&](const Task& task, const Chunk& chunk) {
      begin_layer(context, static_cast<std::size_t>(task.node));
      run(context, task, chunk, input);
    });
    statistics_.send(context, graph_, segment, Task::Kind::accumulate_statistics, batch_);
  }
  if (batch_ == 0) await_parameters_from(context, 0);
  enter(context, time);
}

void Model::begin_layer(const PassContext& context, std::size_t node) {
  if (hooks_.on_layer) hooks_.on_layer(context.space);
  await_parameters_from(context, parameters_.of_layer(node).first);
}

/// Finishes the statistics exchange before waiting, since other ranks may be waiting for these statistics.
void Model::await_parameters_from(const PassContext& context, std::int64_t first) {
  if (!hooks_.arrival || hooks_.arrival->have_arrived(context.space, first)) return;
  statistics_.finish(context);
  hooks_.arrival->await(context.space, first);
}

void Model::run(const PassContext& context, const Task& task, const Chunk& chunk, const Tensor& input) {
  const auto i = static_cast<std::size_t>(task.node);
  const GraphNode& node = graph_.nodes()[i];
  const std::vector<int>& inputs = task.sum < 0 ? node.inputs
                                                : graph_.nodes()[static_cast<std::size_t>(task.sum)].inputs;
  const bool backward = task.kind == Task::Kind::recompute;
  Inputs x;
  for (std::size_t k = 0; k < inputs.size(); ++k) x[k] = output_of(inputs[k], chunk, input, backward);
  const Tensor y = task.kind == Task::Kind::accumulate_statistics ? Tensor{}
                                                                  : output_of(task.node, chunk, input, backward);
  LayerTensors tensors = tensors_of(i, {x.data(), inputs.size()}, y, chunk, backward);
  if (task.sum >= 0) tensors.sum = output_of(task.sum, chunk, input, backward);
  PassContext part = context;
  part.first_example += chunk.first;
  if (task.kind == Task::Kind::accumulate_statistics)
    node.layer->accumulate_statistics(part, tensors, chunk.first == 0);
  else node.layer->forward(part, tensors);
}

Tensor Model::output_gradient() const {
  const int owner = plan_.owner.back();
  return owner == GraphNode::data
             ? Tensor{}
             : at(plan_.gradient[static_cast<std::size_t>(owner)], graph_.output_shape(), {0, batch_});
}

void Model::backward(const PassContext& context, const Tensor& input, const Ready& ready) {
  const auto& nodes = graph_.nodes();
  std::size_t next = nodes.size();  // the gradients of this node and all later ones are final
  const auto is_final = [&](ElementRange range) {
    if (range.count == 0) return;
    if (batch_ == 0 && context.gradients == Store::replace) fill_zero(context.space, parameters_.gradients(range));
    ready(range);
  };
  const auto report = [&](std::size_t first) {
    while (next > first) is_final(parameters_.of_layer(--next).own);
  };
  int time = static_cast<int>(plan_.forward.size()) + 1;
  report(plan_.final_from[0]);
  for (std::size_t s = 0; s < plan_.backward.size(); ++s) {
    const Segment& segment = plan_.backward[s];
    enter(context, time++);
    statistics_.await(context, graph_, segment);
    for_chunks(segment, [&](const Task& task, const Chunk& chunk) {
      if (task.kind == Task::Kind::recompute) run(context, task, chunk, input);
      else run_backward(context, task, chunk, input);
    });
    for (const Task& task : segment.tasks) {
      const auto i = static_cast<std::size_t>(task.node);
      if (task.kind == Task::Kind::accumulate_gradient_statistics && batch_ > 0)
        nodes[i].layer->finalize_gradient_statistics(
            context, {.parameters = parameters_.of_layer(i).values, .gradients = parameters_.of_layer(i).gradients},
            batch_);
    }
    statistics_.send(context, graph_, segment, Task::Kind::accumulate_gradient_statistics, batch_);
    report(plan_.final_from[s + 1]);
  }
  is_final(parameters_.layout().statistics());
}

void Model::run_backward(const PassContext& context, const Task& task, const Chunk& chunk, const Tensor& input) {
  const auto i = static_cast<std::size_t>(task.node);
  const GraphNode& node = graph_.nodes()[i];
  Inputs x, dx, gradient;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    x[k] = output_of(node.inputs[k], chunk, input, true);
    if (!plan_.writes_gradient(graph_, task, k)) continue;
    const int owner = plan_.owner[static_cast<std::size_t>(node.inputs[k])];
    gradient[k] = at(plan_.gradient[static_cast<std::size_t>(owner)], node.input_shapes[k], chunk);
    const Allocation& staging = plan_.staging[i][k];
    dx[k] = staging ? at(staging, node.input_shapes[k], chunk) : gradient[k];
  }
  LayerTensors tensors = tensors_of(i, {x.data(), node.inputs.size()}, output_of(task.node, chunk, input, true), chunk,
                                    true);
  tensors.dx = {dx.data(), node.inputs.size()};
  tensors.input_gradient = plan_.adds_gradient[i] ? Store::add : Store::replace;
  tensors.dy = at(plan_.gradient[i], node.shape, chunk);
  tensors.gradients = parameters_.of_layer(i).gradients;
  PassContext part = context;
  part.first_example += chunk.first;
  if (chunk.first > 0 || node.lends) part.gradients = Store::add;  // add to what the tied layer has stored
  if (task.kind == Task::Kind::accumulate_gradient_statistics)
    node.layer->accumulate_gradient_statistics(part, tensors, chunk.first == 0);
  else node.layer->backward(part, tensors);
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (dx[k] && plan_.staging[i][k]) accumulate(context.space, dx[k], gradient[k]);
}

}  // namespace lockstep
