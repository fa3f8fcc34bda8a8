// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/run_length.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// How the learning rate follows the global batch.
enum class ScaleRule { none, linear, sqrt };
inline constexpr std::string_view scale_rule_names[] = {"none", "linear", "sqrt"};

/// The deck's `schedule` section.
struct ScheduleConfig : Config {
  std::string type = "constant";
  std::shared_ptr<Config> course;  ///< keys of that type
  std::string warmup = "0";        ///< a TrainingSpan
  double warmup_start = 0;
  ScaleRule scale_rule = ScaleRule::none;
  std::optional<std::int64_t> reference_batch;

  ScheduleConfig();
  void describe(Fields& fields) override;
};

/// The learning rate as a function of the numbers of steps and of the deck alone, so that a resumed run needs no more
/// than these.
class LearningRateSchedule {
 public:
  /// Throws KeyError (`schedule.…`) where the schedule does not go with a run of that length.
  LearningRateSchedule(const ScheduleConfig& config, const RunLength& length);

  /// Factor of the optimizer's learning rate after `done` steps, of which `applied` were not skipped: that of the
  /// course, times that of the batch.
  double factor(std::int64_t applied, std::int64_t done) const { return batch_factor(done) * course_factor(applied); }
  /// Factor of the learning rate after `step` steps, none of which was skipped.
  double factor(std::int64_t step) const { return factor(step, step); }
  /// Rises linearly from warmup_start to 1 over the warm-up, and takes the course of its type from there on.
  double course_factor(std::int64_t applied) const;
  /// As the scale rule wants it for the batch of the step after `done` others, skipped ones included: batches come to
  /// their next stage all the same (Goyal et al., "Accurate, large minibatch SGD", 2017).
  double batch_factor(std::int64_t done) const;

 private:
  RunLength length_;
  std::int64_t warmup_;
  double warmup_start_;
  std::function<double(std::int64_t step)> course_;
  ScaleRule rule_;
  double reference_batch_;
};

}  // namespace lockstep
