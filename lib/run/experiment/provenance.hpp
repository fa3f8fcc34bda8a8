// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "data/data_config.hpp"

namespace lockstep {

/// What a run is made of beside its deck, for checkpoints and summaries: the program (build_info.hpp), the ranks and
/// their hosts, and the data, by their fingerprints. JSON; whole on rank 0. Throws SharedError for ranks with different
/// data. Collective.
std::string provenance(const Communicator& comm, const Datasets& data, const SharedReading& reading);

/// Whether two provenances have the same data, wherever they lay.
bool same_data(const std::string& one, const std::string& other);

/// What the inputs were like that such a run was trained on (its targets are left open); none where an earlier version
/// has not written it.
std::optional<ExampleFormat> stored_inputs(const std::string& provenance);

}  // namespace lockstep
