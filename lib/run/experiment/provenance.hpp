// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "data/dataset/dataset.hpp"
#include "data/dataset/shared_reading.hpp"
#include "data/open_datasets.hpp"

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

/// Returns what a run is made of apart from its deck, for checkpoints and summaries, as JSON: the program
/// (build_info.hpp), the ranks, threads and hosts, and the data with their fingerprints. Complete on rank 0 only.
/// Throws SharedError if ranks have different data. Collective.
std::string provenance(const Communicator& comm, const Datasets& data, const SharedReading& reading);

/// Returns the fingerprints of a provenance's data by split: "train", "validation", "test". They do not depend on where
/// the files lay.
std::map<std::string, std::string> data_fingerprints(const std::string& provenance);

/// Returns the format of the inputs that a run with this provenance was trained on, without its targets; none if it
/// is not the provenance of a run.
std::optional<ExampleFormat> stored_inputs(const std::string& provenance);

/// Warns if only one of `data` and the inputs that the network in `file` was trained on are whole numbers of 8 bits,
/// which are divided by 255: other numbers are read as they are. `provenance` is that of the file.
void warn_of_other_input_type(const Dataset& data, const std::string& provenance, const std::string& file);

}  // namespace lockstep
