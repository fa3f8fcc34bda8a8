// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "comm/device_sums.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// Returns where gradients are summed, as the deck asks for it; mpi still depends on what MPI can do. Throws KeyError
/// if the deck's choice cannot be had.
DeviceSums choose_device_sums(const ParallelConfig& config, const DeviceFacts& facts);

}  // namespace lockstep
