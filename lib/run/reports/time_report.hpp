// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// Seconds of a step in total, and in the phases that depend on what is computed.
struct TimedStep {
  double total = 0, forward = 0, backward = 0, optimizer = 0;
};

struct TimedSteps {
  std::vector<TimedStep> steps;
  std::int64_t all = 0;  ///< number of steps of the whole run
};

/// Does steps of the deck's run, at least `least`, and more until `seconds` are over (on one rank only, which alone may
/// decide when to end). Asynchronous and backup ranks do several steps at once, of which each counts as their mean, and
/// none after the run's last step. Nothing of the run is left. Collective.
TimedSteps timed_steps(const RunConfig& config, const Communicator& comm, std::size_t least, double seconds = 0);

/// Returns what `lockstep check --time` prints: the time of the deck's whole run on these ranks, estimated from three
/// of its timed_steps (or fewer, of a shorter run), of which nothing is left. Collective.
std::string time_report(const RunConfig& config, const Communicator& comm);

}  // namespace lockstep
