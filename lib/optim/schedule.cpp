// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

namespace lockstep {

void ScheduleConfig::describe(Fields& fields) {
  static constexpr std::string_view types[] = {"constant"};
  fields.choice("type", type, types, "course of the learning rate after the warm-up");
  fields.integer("warmup_steps", warmup_steps, not_negative, "steps over which the learning rate rises linearly to its value");
}

double ScheduleConfig::factor(std::int64_t step) const {
  return step < warmup_steps ? static_cast<double>(step + 1) / static_cast<double>(warmup_steps) : 1.0;
}

}  // namespace lockstep
