// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// Sums of the MPI library, one after the other, directly in device memory, which the library must support.
/// Collective.
std::unique_ptr<DeviceAllReduce> mpi_device_all_reduce(const Communicator& ranks);

/// True if, on every rank, the MPI library claims to support device memory and has summed known numbers in it
/// correctly. Collective.
bool mpi_takes_device_memory(const Communicator& ranks);

}  // namespace lockstep
