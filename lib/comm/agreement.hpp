// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// What all ranks must have alike.
struct Agreement {
  std::string what;    ///< "the deck"
  std::string value;   ///< of this rank; compared whole
  std::string advice;  ///< "start all ranks with the same deck"
  ExitStatus status = ExitStatus::internal;
};

/// Throws SharedError on all ranks where one has something else than rank 0: it names the first such rank, both hosts,
/// and the lines in which the two differ. Collective.
void expect_agreement(const Communicator& comm, const Agreement& agreement);

}  // namespace lockstep
