// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "train/results.hpp"

namespace lockstep {

class Watchdog;

/// The owner of a run that is one of several. It may end the run before its deck does.
class RunOwner {
 public:
  virtual ~RunOwner() = default;
  /// Returns why the run is to stop at a checkpoint, from which another start goes on; empty: it is not. Called on each
  /// rank between steps, and about twice a second in evaluations. A reason on one rank is enough.
  virtual std::string stop_reason() = 0;
  /// Returns whether the run ends for good after this evaluation on validation data. Called on every rank; must return
  /// the same on all of them.
  virtual bool ends_after(std::int64_t step, const Metrics& metrics) = 0;
  /// Returns what watches this rank during its runs and between them; null: each run has its own.
  virtual Watchdog* watchdog() { return nullptr; }
};

/// Thrown if a run cannot go on: its loss or parameters are not finite, or loss_watch ends it.
struct DivergedError : SharedError {
  using SharedError::SharedError;
};

}  // namespace lockstep
