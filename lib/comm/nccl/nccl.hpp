// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// "NCCL 2.28.9", or the same for RCCL, the library for AMD's devices; empty if this build has neither.
std::string nccl_version();

/// Sums by NCCL in a stream of their own. Every rank must have a device of its own. Throws SharedError if the library
/// cannot connect the ranks. Collective.
std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator& ranks);

}  // namespace lockstep
