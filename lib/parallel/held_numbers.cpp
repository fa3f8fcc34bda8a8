// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/held_numbers.hpp"

namespace lockstep {
namespace {

/// Rank 0 has all of it; other ranks give and take nothing.
HeldNumbers of_root(const std::string& state, const std::vector<Parameter>& layout, const Tensor& values,
                    bool is_root) {
  HeldNumbers numbers{.state = state, .layout = layout, .held = {}, .values = values};
  if (is_root) numbers.held = {{0, values.count()}};
  else numbers.values.shape = {0};
  return numbers;
}

}  // namespace

std::vector<HeldNumbers> whole_numbers(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root) {
  std::vector<HeldNumbers> all{of_root("", parameters.parameters(), parameters.values(), is_root)};
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(of_root(state.name, state.layout, state.values, is_root));
  return all;
}

std::vector<HeldNumbers> owned_numbers(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root) {
  std::vector<HeldNumbers> all;
  const std::vector<ParameterRange>& owned = parameters.layout().owned();
  if (parameters.windows().division.values) {
    const std::vector<Parameter> trained = trained_parameters(parameters.parameters());
    all.push_back({.state = "", .layout = trained, .held = owned, .values = parameters.owned().values()});
    std::vector<Parameter> others(parameters.parameters().begin() + std::ssize(trained), parameters.parameters().end());
    for (Parameter& parameter : others) parameter.range.first -= parameters.trained_size();
    if (!others.empty()) all.push_back(of_root("", others, parameters.values(parameters.layout().others()), is_root));
  } else {
    all.push_back(of_root("", parameters.parameters(), parameters.values(), is_root));
  }
  for (const Optimizer::State& state : optimizer.states())
    all.push_back({.state = state.name, .layout = state.layout, .held = owned, .values = state.values});
  return all;
}

}  // namespace lockstep
