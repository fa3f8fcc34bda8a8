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

std::vector<HeldNumbers> owned_states(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root) {
  std::vector<HeldNumbers> all{of_root("", parameters.parameters(), parameters.values(), is_root)};
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(
        {.state = state.name, .layout = state.layout, .held = parameters.layout().owned(), .values = state.values});
  return all;
}

}  // namespace lockstep
