// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// Sums of the MPI library, one after the other, at the addresses of the step's memory, which it has to take.
/// Collective.
std::unique_ptr<DeviceAllReduce> mpi_device_all_reduce(const Communicator& ranks);

/// Whether the MPI library says of itself, on every rank, that it takes addresses of the devices that kernels run on,
/// and has summed known numbers there rightly. Collective.
bool mpi_takes_device_memory(const Communicator& ranks);

}  // namespace lockstep
