// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameter_buffer.hpp"

#include "core/memory_plan.hpp"

namespace lockstep {

namespace {

/// Elements from the beginning of a parameter to that of the next.
std::int64_t padded(std::int64_t count, DType dtype) {
  const std::size_t element = size_of(dtype);
  return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(count) * element) / element);
}

std::int64_t end_of(const Parameter& parameter, DType dtype) {
  return parameter.range.first + padded(parameter.range.count, dtype);
}

}  // namespace

std::vector<Parameter> plan_parameters(const Graph& graph, DType dtype) {
  std::vector<Parameter> parameters;
  std::int64_t end = 0;
  for (std::size_t node = graph.nodes().size(); node-- > 0;)
    for (const auto& spec : graph.nodes()[node].parameters) {
      parameters.push_back({graph.nodes()[node].name + "/" + spec.name, spec.shape, {end, spec.shape.count()}, node, spec.initializer});
      end = end_of(parameters.back(), dtype);
    }
  return parameters;
}

ParameterBuffer::ParameterBuffer(const Graph& graph, DType dtype)
    : dtype_(dtype),
      parameters_(plan_parameters(graph, dtype)),
      size_(parameters_.empty() ? 0 : end_of(parameters_.back(), dtype)),
      values_("lockstep::parameters", static_cast<std::size_t>(size_) * size_of(dtype)),
      gradients_("lockstep::gradients", static_cast<std::size_t>(size_) * size_of(dtype)),
      node_values_(graph.nodes().size()),
      node_gradients_(graph.nodes().size()),
      node_ranges_(graph.nodes().size()) {
  for (const Parameter& parameter : parameters_) {
    node_values_[parameter.node].push_back(values(parameter));
    node_gradients_[parameter.node].push_back(gradients(parameter));
    ParameterRange& range = node_ranges_[parameter.node];
    if (range.count == 0) range.first = parameter.range.first;
    range.count = end_of(parameter, dtype) - range.first;
  }
}

Tensor ParameterBuffer::slice(const Buffer& buffer, const Parameter& parameter) const {
  return buffer.tensor(static_cast<std::size_t>(parameter.range.first) * size_of(dtype_), dtype_, parameter.shape);
}

void ParameterBuffer::initialize(const ExecSpace& space, std::uint64_t seed) {
  // Numbered from the network's input on, so that a changed last layer leaves the others as they were.
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    lockstep::initialize(space, parameters_[i].initializer, seed, parameters_.size() - i, values(parameters_[i]));
}

}  // namespace lockstep
