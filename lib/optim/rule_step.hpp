// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/optimizer.hpp"
#include "optim/step_kernel.hpp"

namespace lockstep {

/// What the kernels read and write, of an optimizer with that many states.
template <int states, class T, class Copy>
StepArrays<T, Copy, states> step_arrays(const Optimizer& optimizer, const ParameterBuffer& parameters,
                                        const OptimizerStep& step, Copy* copies) {
  const Optimizer::Blocks& blocks = optimizer.blocks();
  StepArrays<T, Copy, states> arrays{.blocks = blocks.blocks,
                                     .count = blocks.count,
                                     .gradients = parameters.trained_gradients().as<T>(),
                                     .gradient_scale = step.gradient_scale.as<double>(),
                                     .clip_value = static_cast<T>(blocks.clip_value),
                                     .parameters = parameters.trained_values().as<T>(),
                                     .copies = copies};
  for (int k = 0; k < states; ++k)
    arrays.state[k] = optimizer.states()[static_cast<std::size_t>(k)].values.template as<T>();
  return arrays;
}

/// make_rule(T{}, settings) of each group.
template <class T, class MakeRule>
auto rules_of(const Optimizer& optimizer, const MakeRule& make_rule) {
  Rules<decltype(make_rule(T{}, GroupSettings{}))> rules{};
  for (std::size_t i = 0; i < optimizer.groups().size(); ++i) rules.of_group[i] = make_rule(T{}, optimizer.groups()[i]);
  return rules;
}

/// A step in which each element needs nothing but itself.
template <int states, class MakeRule>
void rule_step(const ExecSpace& space, const char* label, const Optimizer& optimizer, ParameterBuffer& parameters,
               const OptimizerStep& step, const MakeRule& make_rule) {
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    step_parameters(space, label, rules_of<T>(optimizer, make_rule),
                    step_arrays<states, T>(optimizer, parameters, step, copies), optimizer.blocks().nonfinite);
  });
}

}  // namespace lockstep
