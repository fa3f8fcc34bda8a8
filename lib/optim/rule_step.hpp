// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "optim/parameter_blocks.hpp"
#include "optim/step_kernel.hpp"

namespace lockstep {

/// The arrays of a window for kernels of an optimizer whose rule uses this number of states.
template <int states, class T, class Copy>
BlockArrays<T, Copy, states> step_arrays(const ParameterBlocks& tables, const ParameterBuffer& parameters,
                                         const UpdateScalars* step, Copy* copies, const StateWindow& window) {
  BlockArrays<T, Copy, states> arrays{.blocks = window.blocks,
                                      .count = window.count,
                                      .gradients = parameters.owned().gradients().as<T>(),
                                      .step = step,
                                      .gradient_scale = &step->gradient_scale,
                                      .clip_value = static_cast<T>(tables.blocks().clip_value),
                                      .parameters = window.values_or(parameters.owned()).as<T>(),
                                      .copies = copies};
  for (int k = 0; k < states; ++k) arrays.state[k] = window.states[static_cast<std::size_t>(k)].template as<T>();
  return arrays;
}

template <class T, class MakeRule>
using RuleOf = std::invoke_result_t<MakeRule, T, const GroupSettings&, const StepCoefficients&>;

/// A kernel makes each group's rule, make_rule(T{}, settings, coefficients), from the step's coefficients at the time
/// that it runs. The rules are valid until the next call.
template <class T, class MakeRule>
const Rules<RuleOf<T, MakeRule>>* rules_of(const ExecSpace& space, const ParameterBlocks& tables,
                                           const UpdateScalars* step, const MakeRule& make_rule) {
  using Made = Rules<RuleOf<T, MakeRule>>;
  static_assert(sizeof(Made) <= ParameterBlocks::largest_rules);
  auto* const rules = reinterpret_cast<Made*>(tables.blocks().rules);
  const GroupSettings* const groups = tables.blocks().groups;
  Kokkos::parallel_for(
      "lockstep::optimizer::rules", RangePolicy(space, 0, static_cast<std::int64_t>(tables.groups().size())),
      KOKKOS_LAMBDA(const std::int64_t i) { rules->of_group[i] = make_rule(T{}, groups[i], step->coefficients); });
  return rules;
}

/// Applies rules to all parameters, and updates their moving average if there is one. `ratios`: a trust ratio for each
/// parameter, if the rules have one.
template <int states, class T, class Copy, class Rule>
void step_windows(const ExecSpace& space, const char* label, const ParameterBlocks& tables,
                  const ParameterBuffer& parameters, const UpdateScalars* step, Copy* copies, const Rules<Rule>* rules,
                  const double* ratios = nullptr) {
  using Use = ParameterBlocks::StateUse;
  const Use of_rule = states == 0 ? Use::none : OnlyReads<Rule> ? Use::read : Use::change;
  tables.for_windows_at_last(space, tables.averages() ? Use::change : of_rule,
                             [=, &tables, &parameters](const ExecSpace& where, const StateWindow& window) {
                               BlockArrays<T, Copy, states> arrays = step_arrays<states, T>(tables, parameters, step,
                                                                                            copies, window);
                               arrays.ratios = ratios;
                               step_parameters(where, label, rules, arrays, tables.blocks().nonfinite);
                               tables.average(where, parameters, step, window);
                             });
}

/// A step in which each element depends on no other element.
template <int states, class MakeRule>
void rule_step(const ExecSpace& space, const char* label, const ParameterBlocks& tables, ParameterBuffer& parameters,
               const UpdateScalars* step, const MakeRule& make_rule) {
  dispatch_step(parameters, [&]<class T, class Copy>(T, Copy* copies) {
    step_windows<states, T>(space, label, tables, parameters, step, copies,
                            rules_of<T>(space, tables, step, make_rule));
  });
}

}  // namespace lockstep
