// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <cmath>

#include "optim/schedule_courses.hpp"

namespace lockstep {
namespace {

const Course& course_of(const ScheduleConfig& config) { return dynamic_cast<const Course&>(*config.course); }

}  // namespace

ScheduleConfig::ScheduleConfig() : course(courses().front().make()) {}

void ScheduleConfig::describe(Fields& fields) {
  fields.one_of("type", type, course, courses(), "course of the learning rate after the warm-up");
  fields.text("warmup", warmup,
              "length of the warm-up, in which the learning rate rises linearly to its full value (0: no warm-up)",
              Presence::optional, {.pattern = span_pattern, .words = span_words});
  fields.number("warmup_start", warmup_start, fraction, "fraction of the learning rate that the warm-up starts from");
  fields.choice("scale_rule", scale_rule, scale_rule_names,
                "how the learning rate scales with the global batch: none; linear: by batch / reference_batch; sqrt: "
                "by the square root of that");
  fields.integer("reference_batch", reference_batch, at_least_one,
                 "global batch size that optimizer.learning_rate is meant for, with scale_rule");
  fields.check(!course || !course_of(*this).warms_up() || warmup == "0", "warmup",
               fmt::format("cannot be combined with type: {} (it has its own warm-up); remove it", type));
  fields.check(warmup != "0" || warmup_start == 0, "warmup_start",
               "has no effect without warmup; give warmup, or remove it");
  fields.check(
      (scale_rule == ScaleRule::none) == !reference_batch, "scale_rule",
      "must be given together with reference_batch, the batch that the learning rate is meant for; give both, or "
      "neither");
}

double BatchRule::factor(double batch) const {
  if (rule == ScaleRule::none) return 1;
  const double ratio = batch / reference_batch;
  return rule == ScaleRule::linear ? ratio : std::sqrt(ratio);
}

LearningRateSchedule::LearningRateSchedule(const ScheduleConfig& config, const RunLength& length)
    : length_(length),
      warmup_(length.step_of(training_span_of(config.warmup))),
      warmup_start_(config.warmup_start),
      course_(course_of(config).over(length, warmup_)),
      rule_(config.batch_rule()) {}

double LearningRateSchedule::course_factor(std::int64_t applied) const {
  const double risen = static_cast<double>(applied + 1) / static_cast<double>(warmup_);
  return applied < warmup_ ? warmup_start_ + (1 - warmup_start_) * risen : course_(applied);
}

double LearningRateSchedule::batch_factor(std::int64_t done) const {
  return rule_.factor(static_cast<double>(length_.batch_at_step(done)));
}

}  // namespace lockstep
