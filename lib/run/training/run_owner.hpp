// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// Who has started a run among others, and may end it before its deck does.
class RunOwner {
 public:
  virtual ~RunOwner() = default;
  /// Between steps, and about twice a second in evaluations, on each rank: why the run is to stop at a checkpoint, from
  /// which another start goes on; empty: it is not. One rank that has a reason is enough.
  virtual std::string stop_reason() = 0;
  /// After each evaluation on validation data, on every rank: whether the run ends there, for good. The same on all
  /// ranks.
  virtual bool ends_after(std::int64_t step, const Metrics& metrics) = 0;
};

/// A run that cannot go on: a loss or parameters that are not finite, or whatever loss_watch calls an end.
struct DivergedError : SharedError {
  using SharedError::SharedError;
};

}  // namespace lockstep
