// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameter_buffer.hpp"

#include <algorithm>

#include "core/memory_plan.hpp"
#include "ops/convert.hpp"
#include "ops/elementwise.hpp"

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
  using Kind = ParameterSpec::Kind;
  std::vector<Parameter> parameters;
  for (const Kind kind : {Kind::trained, Kind::statistic})
    for (std::size_t node = graph.nodes().size(); node-- > 0;)
      for (const auto& spec : graph.nodes()[node].parameters)
        if (spec.kind == kind)
          parameters.push_back({.name = graph.nodes()[node].name + "/" + spec.name,
                                .shape = spec.shape,
                                .range = {0, spec.shape.count()},
                                .node = node,
                                .initializer = spec.initializer,
                                .kind = graph.nodes()[node].frozen ? Kind::frozen : kind});
  // So that a changed last layer, or a frozen one, leaves the others as they were.
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].number = parameters.size() - i;
  std::ranges::stable_partition(parameters, [](const Parameter& parameter) { return parameter.kind != Kind::frozen; });
  std::int64_t end = 0;
  for (Parameter& parameter : parameters) {
    parameter.range.first = end;
    end = end_of(parameter, master_dtype(dtype));
  }
  return parameters;
}

std::size_t gradient_bytes(const Graph& graph, DType dtype) {
  const DType master = master_dtype(dtype);
  std::int64_t end = 0;
  for (const Parameter& parameter : plan_parameters(graph, dtype))
    if (parameter.kind != ParameterSpec::Kind::frozen) end = end_of(parameter, master);
  return static_cast<std::size_t>(end) * size_of(master);
}

ParameterBuffer::ParameterBuffer(const Graph& graph, DType dtype, const Buffer& gradient_memory)
    : dtype_(dtype),
      master_(master_dtype(dtype)),
      parameters_(plan_parameters(graph, dtype)),
      node_values_(graph.nodes().size()),
      node_gradients_(graph.nodes().size()),
      node_weights_(graph.nodes().size()),
      node_ranges_(graph.nodes().size()) {
  for (const Parameter& parameter : parameters_) {
    size_ = end_of(parameter, master_);
    if (parameter.kind != ParameterSpec::Kind::frozen) summed_size_ = size_;
    if (parameter.kind == ParameterSpec::Kind::trained) trained_size_ = size_;
  }
  const auto bytes = static_cast<std::size_t>(size_) * size_of(master_);
  values_ = Buffer("lockstep::parameters", bytes);
  gradients_ = gradient_memory.size() > 0 ? gradient_memory
                                          : Buffer("lockstep::gradients", gradient_bytes(graph, dtype));
  if (rounds()) rounded_ = Buffer("lockstep::rounded_parameters", static_cast<std::size_t>(size_) * size_of(dtype_));
  for (const Parameter& parameter : parameters_) {
    node_values_[parameter.node].push_back(values(parameter));
    const bool frozen = parameter.kind == ParameterSpec::Kind::frozen;
    node_gradients_[parameter.node].push_back(frozen ? Tensor{} : gradients(parameter));
    if (parameter.kind == ParameterSpec::Kind::statistic) continue;
    const auto offset = static_cast<std::size_t>(parameter.range.first) * size_of(dtype_);
    node_weights_[parameter.node].push_back(rounds() ? rounded_.tensor(offset, dtype_, parameter.shape)
                                                     : values(parameter));
    if (frozen) continue;
    ParameterRange& range = node_ranges_[parameter.node];
    if (range.count == 0) range.first = parameter.range.first;
    range.count = end_of(parameter, master_) - range.first;
  }
}

Tensor ParameterBuffer::slice(const Buffer& buffer, const Parameter& parameter) const {
  return buffer.tensor(static_cast<std::size_t>(parameter.range.first) * size_of(master_), master_, parameter.shape);
}

void ParameterBuffer::initialize(const ExecSpace& space, std::uint64_t seed) {
  for (const Parameter& parameter : parameters_)
    lockstep::initialize(space, parameter.initializer, seed, parameter.number, values(parameter));
  round(space);
}

void ParameterBuffer::round(const ExecSpace& space) {
  if (rounds()) convert(space, values(), rounded_.tensor(0, dtype_, {size_}));
}

void ParameterBuffer::update_statistics(const ExecSpace& space, double scale) {
  if (summed_size_ == trained_size_) return;
  const auto offset = static_cast<std::size_t>(trained_size_) * size_of(master_);
  const Shape shape{summed_size_ - trained_size_};
  accumulate(space, scale, gradients_.tensor(offset, master_, shape), values_.tensor(offset, master_, shape));
}

}  // namespace lockstep
