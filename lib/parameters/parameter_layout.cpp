// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/parameter_layout.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "core/element_range.hpp"
#include "core/memory_plan.hpp"

namespace lockstep {

std::string parameter_name(const LayerSpecs& layer, const ParameterSpec& spec) {
  return (spec.tied_to.empty() ? layer.name : spec.tied_to) + "/" + spec.name;
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

/// Number of blocks from which on a layer's trained parameters begin at a block boundary; less than 2 % is lost in
/// gaps.
constexpr std::int64_t many_blocks = 64;

/// For each node: true if its trained parameters fill at least many_blocks blocks.
std::vector<bool> of_many_blocks(const std::vector<Parameter>& parameters, std::size_t nodes) {
  std::vector<std::int64_t> counts(nodes, 0);
  for (const Parameter& parameter : parameters)
    if (parameter.kind == ParameterSpec::Kind::trained) counts[parameter.node] += parameter.range.count;
  std::vector<bool> many(nodes);
  std::transform(counts.begin(), counts.end(), many.begin(),
                 [](std::int64_t count) { return count >= many_blocks * array_block; });
  return many;
}

std::vector<Parameter> plan_parameters(std::span<const LayerSpecs> layers, DType dtype) {
  using Kind = ParameterSpec::Kind;
  std::vector<Parameter> parameters;
  for (const Kind kind : {Kind::trained, Kind::statistic})
    for (std::size_t node = layers.size(); node-- > 0;)
      for (const auto& spec : layers[node].parameters)
        if (spec.kind == kind && spec.tied_to.empty())
          parameters.push_back({.name = parameter_name(layers[node], spec),
                                .shape = spec.shape,
                                .range = {0, spec.shape.count()},
                                .node = node,
                                .initializer = spec.initializer,
                                .kind = layers[node].frozen ? Kind::frozen : kind});
  // Numbers count from the input, so that changing or freezing the last layer leaves the initial values of the others
  // as they are.
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].number = parameters.size() - i;
  std::ranges::stable_partition(parameters, [](const Parameter& parameter) { return parameter.kind != Kind::frozen; });
  std::vector<bool> begins_with_block = of_many_blocks(parameters, layers.size());
  std::int64_t end = 0;
  for (Parameter& parameter : parameters) {
    if (begins_with_block[parameter.node]) end = array_blocks(end) * array_block;
    begins_with_block[parameter.node] = false;
    parameter.range.first = end;
    end = end_of(parameter, master_dtype(dtype));
  }
  return parameters;
}

}  // namespace

ParameterLayout::ParameterLayout(std::span<const LayerSpecs> layers, DType dtype)
    : master_(master_dtype(dtype)), parameters_(plan_parameters(layers, dtype)) {
  for (const Parameter& parameter : parameters_) {
    size_ = end_of(parameter, master_);
    if (parameter.kind != ParameterSpec::Kind::frozen) summed_size_ = size_;
    if (parameter.kind == ParameterSpec::Kind::trained) trained_size_ = size_;
  }
  owned_ = {{0, trained_size_}};
}

std::vector<ElementRange> ParameterLayout::units(double megabytes) const {
  const auto most = static_cast<std::int64_t>(1e6 * megabytes) / static_cast<std::int64_t>(size_of(master_));
  std::vector<ElementRange> units;
  const auto cut_at = [&](std::int64_t first, std::int64_t end) { units.push_back({first, end - first}); };
  std::int64_t first = 0, fits = 0;  // start of the current unit, and the last place where it may end
  std::optional<std::size_t> node;
  for (const Parameter& parameter : parameters_) {
    if (parameter.kind != ParameterSpec::Kind::trained) continue;
    const std::int64_t at = parameter.range.first;
    if (std::exchange(node, parameter.node) == parameter.node || at % array_block != 0) continue;
    if (at - first > most && fits > first) cut_at(std::exchange(first, fits), fits);
    if (at - first > most) cut_at(std::exchange(first, at), at);
    fits = at;
  }
  if (trained_size_ - first > most && fits > first) cut_at(std::exchange(first, fits), fits);
  if (trained_size_ > first) cut_at(first, trained_size_);
  return units;
}

std::vector<Parameter> ParameterLayout::owned_parameters() const {
  std::vector<Parameter> whole;
  std::ranges::copy_if(parameters_, std::back_inserter(whole), [this](const Parameter& parameter) {
    return std::ranges::any_of(owned_, [&](const ElementRange& owned) {
      return parameter.range.first >= owned.first &&
             parameter.range.first + parameter.range.count <= owned.first + owned.count;
    });
  });
  return whole;
}

std::int64_t ParameterLayout::owned_count() const {
  return std::accumulate(owned_.begin(), owned_.end(), std::int64_t{0},
                         [](std::int64_t count, const ElementRange& range) { return count + range.count; });
}

}  // namespace lockstep
