// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/packs.hpp"
#include "optim/parameter_blocks.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/update_scalars.hpp"
#include "parameters/parameter_buffer.hpp"

// The kernels of all optimizers. An optimizer is a rule for one element: a callable rule(p, g, states) that returns the
// new parameter and changes its states in place, where g is the clipped gradient of the mean loss. Each group has a
// rule of its own.
namespace lockstep {

/// One rule for each group.
template <class Rule>
struct Rules {
  Rule of_group[most_groups];
};

/// The arrays that kernels read and write. Element i of a block has index first + i among the parameters, gradient + i
/// among the gradients, and state + i in each state.
template <class T, class Copy, int states>
struct BlockArrays {
  const ParameterBlock* blocks = nullptr;
  std::int64_t count = 0;
  const T* gradients = nullptr;
  const UpdateScalars* step = nullptr;
  const double* gradient_scale = nullptr;  ///< usually that of `step`
  T clip_value = 0;
  T* parameters = nullptr;
  Copy* copies = nullptr;  ///< in 16 bits, if Copy differs from T
  T* state[states > 0 ? states : 1] = {};
  const double* ratios = nullptr;  ///< for each parameter, if rules have a trust ratio

  KOKKOS_INLINE_FUNCTION T gradient(std::int64_t i, T scale) const { return clipped(scale * gradients[i]); }
  KOKKOS_INLINE_FUNCTION T clipped(T g) const {
    // Two independent selections vectorize, and keep NaN.
    g = g > clip_value ? clip_value : g;
    return g < -clip_value ? -clip_value : g;
  }
};

/// True for a rule that only reads its states and needs no gradient: the rule of a second pass.
template <class Rule>
concept OnlyReads = requires { typename Rule::only_reads; };

/// True for a rule that multiplies its step by a ratio of each parameter.
template <class Rule, class T>
concept HasTrustRatio = requires(Rule rule, T ratio) { rule.ratio = ratio; };

template <class T, class Copy, int states, class Rule>
KOKKOS_INLINE_FUNCTION void step_element(const BlockArrays<T, Copy, states>& arrays, const ParameterBlock& block,
                                         std::int64_t i, const Rule& rule, T scale, int& nonfinite) {
  T state[states > 0 ? states : 1];
  for (int k = 0; k < states; ++k) state[k] = arrays.state[k][block.state + i];
  const std::int64_t at = block.first + i;
  T g = 0;
  if constexpr (!OnlyReads<Rule>) g = arrays.gradient(block.gradient + i, scale);
  const T p = rule(arrays.parameters[at], g, state);
  if constexpr (!OnlyReads<Rule>)
    for (int k = 0; k < states; ++k) arrays.state[k][block.state + i] = state[k];
  arrays.parameters[at] = p;
  if constexpr (!std::is_same_v<T, Copy>) arrays.copies[at] = Copy(p);
  nonfinite |= is_nonfinite(p) ? 1 : 0;
}

/// Number of elements that a GPU thread processes at once.
template <class T>
inline constexpr int step_lanes = 16 / sizeof(T);

/// Applies the rule to the pack of elements that begins with element i; all arrays must hold it as a pack.
template <class T, class Copy, int states, class Rule>
KOKKOS_INLINE_FUNCTION void step_pack(const BlockArrays<T, Copy, states>& arrays, const ParameterBlock& block,
                                      std::int64_t i, const Rule& rule, T scale, int& nonfinite) {
  constexpr int lanes = step_lanes<T>;
  const std::int64_t at = block.first + i;
  Pack<T, lanes> state[states > 0 ? states : 1], p = load_pack<lanes>(arrays.parameters + at), g = {};
  Pack<Copy, lanes> copies;
  for (int k = 0; k < states; ++k) state[k] = load_pack<lanes>(arrays.state[k] + block.state + i);
  if constexpr (!OnlyReads<Rule>) g = load_pack<lanes>(arrays.gradients + block.gradient + i);
  LOCKSTEP_UNROLL
  for (int l = 0; l < lanes; ++l) {
    T own[states > 0 ? states : 1];
    for (int k = 0; k < states; ++k) own[k] = state[k].lane[l];
    T gradient = 0;
    if constexpr (!OnlyReads<Rule>) gradient = arrays.clipped(scale * g.lane[l]);
    p.lane[l] = rule(p.lane[l], gradient, own);
    for (int k = 0; k < states; ++k) state[k].lane[l] = own[k];
    if constexpr (!std::is_same_v<T, Copy>) copies.lane[l] = Copy(p.lane[l]);
    nonfinite |= is_nonfinite(p.lane[l]) ? 1 : 0;
  }
  if constexpr (!OnlyReads<Rule>)
    for (int k = 0; k < states; ++k) store_pack<lanes>(state[k], arrays.state[k] + block.state + i);
  store_pack<lanes>(p, arrays.parameters + at);
  if constexpr (!std::is_same_v<T, Copy>) store_pack<lanes>(copies, arrays.copies + at);
}

/// True if all arrays begin at addresses where a pack may begin.
template <class T, class Copy, int states>
bool begin_with_packs(const BlockArrays<T, Copy, states>& arrays) {
  constexpr int lanes = step_lanes<T>;
  bool all = holds_packs<T, lanes>(arrays.parameters) && holds_packs<T, lanes>(arrays.gradients) &&
             holds_packs<Copy, lanes>(arrays.copies);
  for (int k = 0; k < states; ++k) all = all && holds_packs<T, lanes>(arrays.state[k]);
  return all;
}

/// True if elements i, …, i + step_lanes − 1 of the block form a pack in arrays that begin with packs.
template <class T>
KOKKOS_INLINE_FUNCTION bool is_step_pack(const ParameterBlock& block, std::int64_t i) {
  constexpr int lanes = step_lanes<T>;
  return i + lanes <= block.count && (block.first | block.gradient | block.state) % lanes == 0;
}

template <class T, class Copy, int states, class Rule>
KOKKOS_INLINE_FUNCTION Rule rule_of(const BlockArrays<T, Copy, states>& arrays, const ParameterBlock& block,
                                    const Rules<Rule>& rules) {
  Rule rule = rules.of_group[block.group];
  if constexpr (HasTrustRatio<Rule, T>) rule.ratio = static_cast<T>(arrays.ratios[block.parameter]);
  return rule;
}

/// Applies each block's rule to its elements. `nonfinite` (i32 [1]) is set to whether any new parameter is not finite.
/// `rules` lie in device memory.
template <class T, class Copy, int states, class Rule>
void step_parameters(const ExecSpace& space, const char* label, const Rules<Rule>* rules,
                     const BlockArrays<T, Copy, states>& arrays, const Tensor& nonfinite) {
  const Kokkos::View<int, MemorySpace, Kokkos::MemoryUnmanaged> result(nonfinite.as<int>());
  const Kokkos::BOr<int, MemorySpace> found(result);
  if constexpr (thread_per_element) {
    const bool packed = begin_with_packs(arrays);
    Kokkos::parallel_reduce(
        label, RangePolicy(space, 0, arrays.count * (array_block / step_lanes<T>)),
        KOKKOS_LAMBDA(const std::int64_t index, int& bad) {
          if (arrays.step->left_out) {
            bad |= arrays.step->nonfinite_before;
            return;
          }
          constexpr int lanes = step_lanes<T>, packs = array_block / lanes;  // packs of a block
          const ParameterBlock block = arrays.blocks[index / packs];
          const std::int64_t i = index % packs * lanes, end = i + lanes < block.count ? i + lanes : block.count;
          if (i >= end) return;
          const Rule rule = rule_of(arrays, block, *rules);
          const T scale = static_cast<T>(*arrays.gradient_scale);
          if (packed && is_step_pack<T>(block, i)) return step_pack(arrays, block, i, rule, scale, bad);
          for (std::int64_t j = i; j < end; ++j) step_element(arrays, block, j, rule, scale, bad);
        },
        found);
  } else {
    Kokkos::parallel_reduce(
        label, RangePolicy(space, 0, arrays.count),
        KOKKOS_LAMBDA(const std::int64_t b, int& bad) {
          const BlockArrays<T, Copy, states> own = arrays;  // a copy that no store can alias
          if (own.step->left_out) {
            bad |= own.step->nonfinite_before;
            return;
          }
          const ParameterBlock block = own.blocks[b];
          const Rule rule = rule_of(own, block, *rules);
          const T scale = static_cast<T>(*own.gradient_scale);
          int bad_here = 0;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < block.count; ++i) step_element(own, block, i, rule, scale, bad_here);
          bad |= bad_here;
        },
        found);
  }
}

/// Calls f(T{}, copies) with the type of the parameters and the address of their 16-bit copy; a null pointer to T if
/// there is none.
template <class F>
void dispatch_step(const ParameterBuffer& parameters, F&& f) {
  const Tensor rounded = parameters.rounded();
  if (!rounded) dispatch_master(parameters.dtype(), [&]<class T>(T) { f(T{}, static_cast<T*>(nullptr)); });
  else if (rounded.dtype == DType::bf16) f(float{}, rounded.as<bfloat16>());
  else f(float{}, rounded.as<half>());
}

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
