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

/// Makes a checkpoint, in `checkpoints`, of the newest step after `step` for which the nodes' memory has what all ranks
/// of the run held (NeighbourCopies), whatever the ranks are now. Returns that step, or none if there is no such step.
/// Damaged copies are named in warnings and skipped. `run`, which identifies the run, `step` and `checkpoints` are
/// those of rank 0. Throws what write_checkpoint throws, on all ranks. Collective.
std::optional<std::int64_t> recover_from_neighbours(const Topology& ranks, const MemoryFolder& folder,
                                                    const std::string& run, std::int64_t step,
                                                    const std::filesystem::path& checkpoints,
                                                    const CheckpointEvents& events);

}  // namespace lockstep
