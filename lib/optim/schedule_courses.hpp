// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/run_length.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// What the learning rate does after the warm-up.
struct Course : Config {
  /// The factor in step `step`, from 0, of a run of that length, whose first `warmup` steps are the warm-up's. Throws
  /// KeyError where they do not go together.
  virtual std::function<double(std::int64_t step)> over(const RunLength& length, std::int64_t warmup) const = 0;
  /// Whether it has a warm-up of its own.
  virtual bool warms_up() const { return false; }
};

/// The table of courses.
std::span<const Alternative> courses();

}  // namespace lockstep
