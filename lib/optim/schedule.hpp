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

/// The learning rate as a function of the step and of the deck alone, so that a resumed run needs no more than its
/// step.
class LearningRateSchedule {
 public:
  /// Throws KeyError (`schedule.…`) where the schedule does not go with a run of that length.
  LearningRateSchedule(const ScheduleConfig& config, const RunLength& length);

  /// Factor of the optimizer's learning rate in step `step`, from 0: rises linearly from warmup_start to 1 over the
  /// warm-up, takes the course of its type from there on, and is multiplied as the scale rule wants it for the batch of
  /// that step (Goyal et al., "Accurate, large minibatch SGD", 2017).
  double factor(std::int64_t step) const;

 private:
  std::int64_t warmup_;
  double warmup_start_;
  std::function<double(std::int64_t step)> course_;
  std::function<double(std::int64_t step)> batch_factor_;
};

}  // namespace lockstep
