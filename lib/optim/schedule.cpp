// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

/// What the learning rate does after the warm-up.
struct Course {
  std::string_view name;
  std::string_view help;  ///< empty: its name says it
  bool has_end;           ///< whether it looks at final_fraction
  /// Factor when so much of the steps after the warm-up is done, 0 to 1.
  double (*factor)(double done, double final_fraction);
};

double stay(double, double) { return 1; }

/// Half a cosine (Loshchilov & Hutter, "SGDR", 2017).
double half_cosine(double done, double final_fraction) {
  return final_fraction + (1 - final_fraction) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

constexpr Course courses[] = {
    {"constant", "", false, stay},
    {"cosine", "down to final_fraction at the run's last step", true, half_cosine},
};

constexpr auto course_names = [] {
  std::array<std::string_view, std::size(courses)> names;
  std::ranges::transform(courses, names.begin(), &Course::name);
  return names;
}();

std::string course_help() {
  std::string help = "course of the learning rate after the warm-up";
  for (const Course& course : courses)
    if (!course.help.empty()) help += fmt::format("; {}: {}", course.name, course.help);
  return help;
}

const Course& course_of(const ScheduleConfig& config) { return courses[static_cast<std::size_t>(config.course)]; }

}  // namespace

void ScheduleConfig::describe(Fields& fields) {
  fields.choice("type", course, course_names, course_help());
  fields.integer("warmup_steps", warmup_steps, not_negative,
                 "steps over which the learning rate rises linearly to its value");
  fields.number("final_fraction", final_fraction, fraction, "of the learning rate, what cosine ends at");
  fields.check(course_of(*this).has_end || final_fraction == 0, "final_fraction",
               fmt::format("stands beside type: {} (the learning rate stays as it is); use type: cosine, or remove it",
                           course_of(*this).name));
}

double ScheduleConfig::factor(std::int64_t step, std::int64_t total_steps) const {
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const double steps = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / steps);
  return course_of(*this).factor(done, final_fraction);
}

}  // namespace lockstep
