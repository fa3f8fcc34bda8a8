// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/memory_folder.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// Makes a checkpoint, in `checkpoints`, of the newest step after `step` of which the nodes' memory has what all ranks
/// of the run held (NeighbourCopies), whatever ranks there are now. Returns the step; none: there is no such. Copies
/// that are damaged are named and passed over. Of rank 0 are `run` (which run it is), `step` and `checkpoints`. Throws
/// what write_checkpoint throws, on all ranks. Collective.
std::optional<std::int64_t> recover_from_neighbours(const Topology& ranks, const MemoryFolder& folder,
                                                    const std::string& run, std::int64_t step,
                                                    const std::filesystem::path& checkpoints,
                                                    const CheckpointEvents& events);

}  // namespace lockstep
