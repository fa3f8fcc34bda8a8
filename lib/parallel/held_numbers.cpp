// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/held_numbers.hpp"

#include <utility>

namespace lockstep {
namespace {

/// What a rank has of it; who does not take part gives and takes nothing.
HeldNumbers held_by(bool takes_part, const std::string& state, const std::vector<Parameter>& layout,
                    std::vector<ParameterRange> held, const Tensor& values) {
  HeldNumbers numbers{.state = state, .layout = layout, .held = std::move(held), .values = values};
  if (!takes_part) {
    numbers.held.clear();
    numbers.values.shape = {0};
  }
  return numbers;
}

}  // namespace

HeldNumbers numbers_of_one(const std::string& state, const std::vector<Parameter>& layout, const Tensor& values,
                           bool has_them) {
  return held_by(has_them, state, layout, {{0, values.count()}}, values);
}

std::vector<HeldNumbers> whole_numbers(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root) {
  std::vector<HeldNumbers> all{numbers_of_one("", parameters.parameters(), parameters.values(), is_root)};
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(numbers_of_one(state.name, state.layout, state.values, is_root));
  return all;
}

std::vector<HeldNumbers> owned_numbers(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root,
                                       bool of_first_group) {
  std::vector<HeldNumbers> all;
  const std::vector<ParameterRange>& owned = parameters.layout().owned();
  if (parameters.windows().division.values) {
    const std::vector<Parameter> trained = trained_parameters(parameters.parameters());
    all.push_back(held_by(of_first_group, "", trained, owned, parameters.owned().values()));
    std::vector<Parameter> others(parameters.parameters().begin() + std::ssize(trained), parameters.parameters().end());
    for (Parameter& parameter : others) parameter.range.first -= parameters.trained_size();
    if (!others.empty())
      all.push_back(numbers_of_one("", others, parameters.values(parameters.layout().others()), is_root));
  } else {
    all.push_back(numbers_of_one("", parameters.parameters(), parameters.values(), is_root));
  }
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(held_by(of_first_group, state.name, state.layout, owned, state.values));
  return all;
}

}  // namespace lockstep
