// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/parameter_layout.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/memory_plan.hpp"

namespace lockstep {

std::string parameter_name(const GraphNode& node, const ParameterSpec& spec) {
  return (spec.tied_to.empty() ? node.name : spec.tied_to) + "/" + spec.name;
}

std::int64_t padded_count(std::int64_t count, DType dtype) {
  const std::size_t element = size_of(dtype);
  return static_cast<std::int64_t>(align_up(static_cast<std::size_t>(count) * element) / element);
}

std::vector<Parameter> trained_parameters(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> trained;
  std::ranges::copy_if(parameters, std::back_inserter(trained),
                       [](const Parameter& parameter) { return parameter.kind == ParameterSpec::Kind::trained; });
  return trained;
}

namespace {

std::int64_t end_of(const Parameter& parameter, DType dtype) {
  return parameter.range.first + padded_count(parameter.range.count, dtype);
}

std::vector<Parameter> plan_parameters(const Graph& graph, DType dtype) {
  using Kind = ParameterSpec::Kind;
  std::vector<Parameter> parameters;
  for (const Kind kind : {Kind::trained, Kind::statistic})
    for (std::size_t node = graph.nodes().size(); node-- > 0;)
      for (const auto& spec : graph.nodes()[node].parameters)
        if (spec.kind == kind && spec.tied_to.empty())
          parameters.push_back({.name = parameter_name(graph.nodes()[node], spec),
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

}  // namespace

ParameterLayout::ParameterLayout(const Graph& graph, DType dtype)
    : master_(master_dtype(dtype)), parameters_(plan_parameters(graph, dtype)) {
  for (const Parameter& parameter : parameters_) {
    size_ = end_of(parameter, master_);
    if (parameter.kind != ParameterSpec::Kind::frozen) summed_size_ = size_;
    if (parameter.kind == ParameterSpec::Kind::trained) trained_size_ = size_;
  }
  owned_ = {{0, trained_size_}};
}

std::size_t ParameterLayout::gradient_bytes() const {
  return static_cast<std::size_t>(summed_size_) * size_of(master_);
}

std::vector<Parameter> ParameterLayout::owned_parameters() const {
  std::vector<Parameter> whole;
  std::ranges::copy_if(parameters_, std::back_inserter(whole), [this](const Parameter& parameter) {
    return std::ranges::any_of(owned_, [&](const ParameterRange& owned) {
      return parameter.range.first >= owned.first &&
             parameter.range.first + parameter.range.count <= owned.first + owned.count;
    });
  });
  return whole;
}

std::int64_t ParameterLayout::owned_count() const {
  return std::accumulate(owned_.begin(), owned_.end(), std::int64_t{0},
                         [](std::int64_t count, const ParameterRange& range) { return count + range.count; });
}

}  // namespace lockstep
