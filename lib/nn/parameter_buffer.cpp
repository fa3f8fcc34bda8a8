// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameter_buffer.hpp"

#include "core/memory_plan.hpp"

namespace lockstep {

ParameterBuffer::ParameterBuffer(const Graph& graph, DType dtype) : dtype_(dtype) {
  const auto& nodes = graph.nodes();
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const auto padded = [&](std::int64_t count) {
    return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(count * element))) / element;
  };
  std::vector<std::size_t> first_parameter(nodes.size());
  node_ranges_.resize(nodes.size());
  for (std::size_t node = nodes.size(); node-- > 0;) {
    first_parameter[node] = parameters_.size();
    node_ranges_[node].first = size_;
    for (const auto& spec : nodes[node].parameters) {
      parameters_.push_back({nodes[node].name + "/" + spec.name, spec.shape, {size_, spec.shape.count()}, spec.initializer});
      size_ += padded(spec.shape.count());
    }
    node_ranges_[node].count = size_ - node_ranges_[node].first;
  }
  values_ = Buffer("lockstep::parameters", static_cast<std::size_t>(size_ * element));
  gradients_ = Buffer("lockstep::gradients", static_cast<std::size_t>(size_ * element));

  node_values_.resize(nodes.size());
  node_gradients_.resize(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node)
    for (std::size_t i = 0; i < nodes[node].parameters.size(); ++i) {
      const Parameter& parameter = parameters_[first_parameter[node] + i];
      node_values_[node].push_back(values(parameter));
      node_gradients_[node].push_back(gradients(parameter));
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
