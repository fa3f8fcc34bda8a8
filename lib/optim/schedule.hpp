// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `schedule` section: the learning rate as a function of the step and of the deck alone,
/// so that a resumed run needs no more than its step.
struct ScheduleConfig : Config {
  int course = 0;  ///< `type`: its place in the table of schedule.cpp
  std::int64_t warmup_steps = 0;
  double final_fraction = 0;

  void describe(Fields& fields) override;

  /// Factor of the optimizer's learning rate in step `step`, from 0, of `total_steps`: rises linearly
  /// to 1 over the warm-up (Goyal et al., "Accurate, large minibatch SGD", 2017), and then takes the course
  /// of its type.
  double factor(std::int64_t step, std::int64_t total_steps) const;
};

}  // namespace lockstep
