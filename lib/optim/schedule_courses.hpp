// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/run_length.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// The course of the learning rate after the warm-up.
struct Course : Config {
  /// The factor as a function of the step, from 0, for a run of this length whose first `warmup` steps are the warm-up.
  /// Throws KeyError if the course does not fit the run.
  virtual std::function<double(std::int64_t step)> over(const RunLength& length, std::int64_t warmup) const = 0;
  /// True if the course includes a warm-up of its own.
  virtual bool warms_up() const { return false; }
};

/// The table of courses.
std::span<const Alternative> courses();

}  // namespace lockstep
