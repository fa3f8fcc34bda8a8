// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

void ScheduleConfig::describe(Fields& fields) {
  static constexpr std::string_view types[] = {"constant", "cosine"};
  fields.choice("type", type, types,
                "course of the learning rate after the warm-up; cosine: down to final_fraction at the run's last step");
  fields.integer("warmup_steps", warmup_steps, not_negative,
                 "steps over which the learning rate rises linearly to its value");
  fields.number("final_fraction", final_fraction, fraction, "of the learning rate, what cosine ends at");
  fields.check(type == Type::cosine || final_fraction == 0, "final_fraction",
               "stands beside type: constant (the learning rate stays as it is); use type: cosine, or remove it");
}

double ScheduleConfig::factor(std::int64_t step, std::int64_t total_steps) const {
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (type == Type::constant) return 1;
  const double course = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / course);
  return final_fraction + (1 - final_fraction) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace lockstep
