// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "run/run_config.hpp"

namespace lockstep {

/// What `lockstep check --time` prints: the time of the deck's whole run on these ranks, by three of its steps, which
/// are done and leave nothing behind. Collective.
std::string time_report(const RunConfig& config, const Communicator& comm);

}  // namespace lockstep
