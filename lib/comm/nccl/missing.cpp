// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For builds without NCCL.
#include "base/error.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

std::string nccl_version() { return ""; }

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator&) {
  throw Error(ExitStatus::internal, "nccl is not in this build; callers must check nccl_version first");
}

}  // namespace lockstep
