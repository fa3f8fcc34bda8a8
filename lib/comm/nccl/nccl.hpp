// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// "NCCL 2.28.9", or RCCL, which is the same for AMD's devices; empty where this build has neither.
std::string nccl_version();

/// Its sums, in a stream of their own. Every rank has a device for itself. Throws SharedError where the library cannot
/// connect them. Collective.
std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator& ranks);

}  // namespace lockstep
