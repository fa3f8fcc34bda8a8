// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// A value that must be the same on all ranks.
struct Agreement {
  std::string what;    ///< "the deck"
  std::string value;   ///< this rank's value, compared as a whole
  std::string advice;  ///< "start all ranks with the same deck"
  ExitStatus status = ExitStatus::internal;
};

/// Throws SharedError on all ranks if any value differs from that of rank 0. The message names the lowest such rank,
/// both hosts, and the lines that differ. Collective.
void expect_agreement(const Communicator& comm, const Agreement& agreement);

}  // namespace lockstep
