// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "data/shared_reading.hpp"

namespace lockstep {

// What differs between ranks would part their parameters for good, or leave some waiting for the others. All throw
// SharedError on all ranks where one has something else than rank 0: it names the first such rank, both hosts, and the
// lines in which the two differ. Collective.

/// This rank's resolved deck, which all ranks have alike, as they have this program and their number of threads (by
/// which layers are cut into chunks, and those synchronize that have something to tell other ranks).
std::string agreed_deck(const Communicator& comm, const std::string& deck);

/// What the dataset holds, as text: size, format, and a hash of the examples (of as many as 64 MB hold, at even
/// distances; read by one rank of each node), which all ranks have alike. `dataset`: null for none.
std::string agreed_data(const Communicator& comm, const Dataset* dataset, const SharedReading& reading);

}  // namespace lockstep
