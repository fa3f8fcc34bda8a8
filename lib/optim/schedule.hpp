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

/// How the learning rate scales with the global batch.
enum class ScaleRule { none, linear, sqrt };
inline constexpr std::string_view scale_rule_names[] = {"none", "linear", "sqrt"};

/// How the learning rate follows the batch (Goyal et al., "Accurate, large minibatch SGD", 2017).
struct BatchRule {
  ScaleRule rule = ScaleRule::none;
  double reference_batch = 1;

  /// Factor of the learning rate of steps on `batch` examples.
  double factor(double batch) const;
};

/// The deck's `schedule` section.
struct ScheduleConfig : Config {
  std::string type = "constant";
  std::shared_ptr<Config> course;  ///< keys of the chosen type
  std::string warmup = "0";        ///< a TrainingSpan
  double warmup_start = 0;
  ScaleRule scale_rule = ScaleRule::none;
  std::optional<std::int64_t> reference_batch;

  ScheduleConfig();
  void describe(Fields& fields) override;
  BatchRule batch_rule() const { return {scale_rule, static_cast<double>(reference_batch.value_or(1))}; }
};

/// The learning rate as a function of only the step numbers and the deck, so that a resumed run needs no other state.
class LearningRateSchedule {
 public:
  /// Throws KeyError (`schedule.…`) if the schedule does not fit a run of that length.
  LearningRateSchedule(const ScheduleConfig& config, const RunLength& length);

  /// Factor of the optimizer's learning rate after `done` steps, of which `applied` were not skipped: the course's
  /// factor times the batch's.
  double factor(std::int64_t applied, std::int64_t done) const { return batch_factor(done) * course_factor(applied); }
  /// Factor of the learning rate after `step` steps, none of which was skipped.
  double factor(std::int64_t step) const { return factor(step, step); }
  /// Rises linearly from warmup_start to 1 over the warm-up, then follows the course of the chosen type.
  double course_factor(std::int64_t applied) const;
  /// The factor that the scale rule gives for the batch of the step after `done` steps. Skipped steps count, because
  /// batches advance to their next stage nevertheless.
  double batch_factor(std::int64_t done) const;

 private:
  RunLength length_;
  std::int64_t warmup_;
  double warmup_start_;
  std::function<double(std::int64_t step)> course_;
  BatchRule rule_;
};

}  // namespace lockstep
