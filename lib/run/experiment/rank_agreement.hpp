// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "data/shared_reading.hpp"

namespace lockstep {

// Ranks that differ in these would let their parameters diverge, or leave others waiting. Each function throws
// SharedError on all ranks if any rank has something else than rank 0; the message names the first such rank, both
// hosts, and the lines that differ. Collective.

/// Returns this rank's resolved `deck`, once all ranks are known to have the same deck, program and number of threads.
/// (The number of threads sets how plans cut layers into chunks, in which layers may wait for other ranks.)
std::string agreed_deck(const Communicator& comm, const std::string& deck);

/// Returns what all ranks find in the dataset, as text: the number of examples, their bytes, and a hash of examples at
/// even distances (as many as 64 MB hold; at most 1000 where they are computed). One rank of each node reads them.
/// `dataset`: null for none.
std::string agreed_data(const Communicator& comm, const Dataset* dataset, const SharedReading& reading);

}  // namespace lockstep
