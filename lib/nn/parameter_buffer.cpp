// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameter_buffer.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ops/convert.hpp"
#include "ops/elementwise.hpp"

namespace lockstep {

ParameterBuffer::ParameterBuffer(const Graph& graph, DType dtype, const ParameterMemory& memory)
    : dtype_(dtype),
      master_(master_dtype(dtype)),
      layout_(graph, dtype),
      node_values_(graph.nodes().size()),
      node_gradients_(graph.nodes().size()),
      node_weights_(graph.nodes().size()),
      node_ranges_(graph.nodes().size()),
      node_first_(graph.nodes().size(), layout_.size()) {
  const auto bytes = static_cast<std::size_t>(size()) * size_of(master_);
  const auto take = [](const Buffer& given, const char* name, std::size_t needed) {
    return given.size() > 0 ? given : Buffer(name, needed);
  };
  values_ = take(memory.values, "lockstep::parameters", bytes);
  gradients_ = take(memory.gradients, "lockstep::gradients", layout_.gradient_bytes());
  if (rounds())
    rounded_ = take(memory.rounded, "lockstep::rounded_parameters", static_cast<std::size_t>(size()) * size_of(dtype_));
  std::unordered_map<std::string_view, const Parameter*> named;
  for (const Parameter& parameter : parameters()) named.emplace(parameter.name, &parameter);
  for (std::size_t node = 0; node < graph.nodes().size(); ++node)
    for (const ParameterSpec& spec : graph.nodes()[node].parameters)
      add_view(node, *named.at(parameter_name(graph.nodes()[node], spec)));
}

void ParameterBuffer::add_view(std::size_t node, const Parameter& parameter) {
  node_values_[node].push_back(values(parameter));
  node_first_[node] = std::min(node_first_[node], parameter.range.first);
  const bool frozen = parameter.kind == ParameterSpec::Kind::frozen;
  node_gradients_[node].push_back(frozen ? Tensor{} : gradients(parameter));
  if (parameter.kind == ParameterSpec::Kind::statistic) return;
  const auto offset = static_cast<std::size_t>(parameter.range.first) * size_of(dtype_);
  node_weights_[node].push_back(rounds() ? rounded_.tensor(offset, dtype_, parameter.shape) : values(parameter));
  if (frozen || parameter.node != node) return;  // of another: final when that one's are
  ParameterRange& range = node_ranges_[node];
  if (range.count == 0) range.first = parameter.range.first;
  range.count = parameter.range.first + padded_count(parameter.range.count, master_) - range.first;
}

Tensor ParameterBuffer::slice(const Buffer& buffer, const Parameter& parameter) const {
  return buffer.tensor(static_cast<std::size_t>(parameter.range.first) * size_of(master_), master_, parameter.shape);
}

void ParameterBuffer::initialize(const ExecSpace& space, std::uint64_t seed) {
  for (const Parameter& parameter : parameters())
    lockstep::initialize(space, parameter.initializer, seed, parameter.number, values(parameter));
  round(space);
}

void ParameterBuffer::round(const ExecSpace& space, ParameterRange range) {
  if (!rounds() || range.count == 0) return;
  const auto offset = static_cast<std::size_t>(range.first) * size_of(dtype_);
  convert(space, values(range), rounded_.tensor(offset, dtype_, {range.count}));
}

void ParameterBuffer::update_statistics(const ExecSpace& space, double scale, const std::int32_t* left_out) {
  if (layout_.summed_size() == trained_size()) return;
  const auto offset = static_cast<std::size_t>(trained_size()) * size_of(master_);
  const Shape shape{layout_.summed_size() - trained_size()};
  accumulate(space, scale, gradients_.tensor(offset, master_, shape), values_.tensor(offset, master_, shape), left_out);
}

}  // namespace lockstep
