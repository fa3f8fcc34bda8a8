// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/plain_model.hpp"

#include "support/fixtures.hpp"

namespace lockstep::test {
namespace {

Shape reshape_for(const GraphNode& node, std::size_t k, std::int64_t n) { return node.input_shapes[k].with_batch(n); }

}  // namespace

PlainModel::PlainModel(Graph graph, DType dtype, std::int64_t n, const ProvidersConfig& providers)
    : graph_(std::move(graph)), dtype_(dtype), n_(n), parameters_(graph_.layer_specs(), dtype) {
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    GraphNode& node = graph_.nodes()[i];
    node.layer->plan({node.input_shapes, node.shape, dtype, providers, node.number});
    node.layer->allocate();
    const auto workspace = static_cast<std::int64_t>(node.view ? 0 : node.layer->prepare(n));
    const auto saved = static_cast<std::int64_t>(node.view ? 0 : node.layer->saved_bytes(n, node.shape));
    outputs_.emplace_back("output", dtype, node.shape.with_batch(n));
    saved_.emplace_back("saved", DType::u8, Shape{saved});
    workspaces_.emplace_back("workspace", DType::u8, Shape{workspace});
  }
}

Tensor PlainModel::output(int node, const Tensor& input) const {
  return node == GraphNode::data ? input : outputs_[static_cast<std::size_t>(node)].get();
}

Tensor PlainModel::forward(const PassContext& context, const Tensor& input) {
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const GraphNode& node = graph_.nodes()[i];
    std::vector<Tensor> x;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      x.push_back(output(node.inputs[k], input).reshaped(reshape_for(node, k, n_)));
    poison(outputs_[i].get());
    if (node.view) {
      copy(context.space, x[0], outputs_[i].get());
      context.space.fence();
      continue;
    }
    poison(workspaces_[i].get());
    node.layer->set_weights(parameters_.of_layer(i).weights);
    const LayerTensors tensors{.x = x,
                               .y = outputs_[i].get(),
                               .parameters = parameters_.of_layer(i).values,
                               .saved = saved_[i].get(),
                               .workspace = workspaces_[i].get()};
    if (node.layer->traits().needs_statistics) {
      node.layer->accumulate_statistics(context, tensors, true);
      node.layer->finalize_statistics(context, n_);
    }
    node.layer->forward(context, tensors);
    context.space.fence();
  }
  return outputs_.back().get();
}

std::vector<double> PlainModel::backward(const PassContext& context, const Tensor& input,
                                         const std::vector<double>& doutput) {
  const auto& nodes = graph_.nodes();
  std::vector<std::vector<double>> gradient(nodes.size());
  std::vector<double> dinput;
  gradient.back() = doutput;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const GraphNode& node = nodes[i];
    std::vector<OwnedTensor> dx_storage;
    std::vector<Tensor> x, dx;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      x.push_back(output(node.inputs[k], input).reshaped(reshape_for(node, k, n_)));
      dx_storage.emplace_back("dx", dtype_, reshape_for(node, k, n_));
      dx.push_back(dx_storage.back().get());
      poison(dx.back());
    }
    if (node.view) {
      set_values(dx[0], gradient[i]);
    } else {
      const OwnedTensor dy = make_tensor(dtype_, node.shape.with_batch(n_), gradient[i]);
      poison(workspaces_[i].get());
      const LayerTensors tensors{.x = x,
                                 .y = outputs_[i].get(),
                                 .dx = dx,
                                 .dy = dy.get(),
                                 .parameters = parameters_.of_layer(i).values,
                                 .gradients = parameters_.of_layer(i).gradients,
                                 .saved = saved_[i].get(),
                                 .workspace = workspaces_[i].get()};
      if (node.layer->traits().needs_statistics) {
        node.layer->accumulate_gradient_statistics(context, tensors, true);
        node.layer->finalize_gradient_statistics(context, tensors, n_);
      }
      node.layer->backward(context, tensors);
      context.space.fence();
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      auto& total = node.inputs[k] == GraphNode::data ? dinput : gradient[static_cast<std::size_t>(node.inputs[k])];
      const auto part = values_of(dx[k]);
      if (total.empty()) total = part;
      else
        for (std::size_t e = 0; e < part.size(); ++e) total[e] += part[e];
    }
  }
  return dinput;
}

}  // namespace lockstep::test
