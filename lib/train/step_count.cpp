// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_count.hpp"

#include <algorithm>

namespace lockstep {

void StepCount::describe_state(StateFields& fields) {
  fields.integer("step", done);
  fields.integer("skipped_steps", skipped);
  const auto unless_zero = [&](std::string_view key, std::int64_t& value) {
    if (fields.has(key, value > 0)) fields.integer(key, value);
    else value = 0;
  };
  unless_zero("skipped_in_a_row", skipped_in_a_row);
  unless_zero("steps_before_branch", before);
}

void describe_last_learning_rate(StateFields& fields, const StepCount& count, double& learning_rate) {
  constexpr const char* key = "learning_rate";
  if (fields.has(key, count.optimizer_steps() > 0)) fields.real(key, learning_rate);
  else learning_rate = 0;
}

StepPlace KnownSteps::place_of(std::int64_t steps) const {
  const std::int64_t done = std::max(steps + count.skipped, count.done);
  if (steps == 0) return {steps, done, done};
  // If the last step turns out to be skipped, one step fewer is applied than the host counts; the next step has the
  // same batch in either case.
  const bool is_known = steps == applied();
  return {steps, done, is_known ? count.done - untaken - count.skipped_in_a_row - 1 : done - 1};
}

}  // namespace lockstep
