// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// Seconds of a step, and of those of its phases that depend on what is computed.
struct TimedStep {
  double total = 0, forward = 0, backward = 0, optimizer = 0;
};

struct TimedSteps {
  std::vector<TimedStep> steps;
  std::int64_t all = 0;  ///< steps that the whole run has
};

/// Does steps of the deck's run, which leave nothing after: at least so many, and more until `seconds` are over (of
/// one rank alone). Collective.
TimedSteps timed_steps(const RunConfig& config, const Communicator& comm, std::size_t least, double seconds = 0);

/// What `lockstep check --time` prints: the time of the deck's whole run on these ranks, by three of its steps, which
/// are done and leave nothing behind. Collective.
std::string time_report(const RunConfig& config, const Communicator& comm);

}  // namespace lockstep
