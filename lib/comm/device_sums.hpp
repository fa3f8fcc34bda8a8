// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// What decides where ranks can sum; the same on all ranks.
struct DeviceFacts {
  int ranks = 1;
  bool all_have_devices = false;
  std::string shared;  ///< a remark if several ranks share a device; else empty
  bool has_nccl = false;
  bool emulates_network = false;
};

/// Where gradients are summed: in host memory or in device memory.
struct DeviceSums {
  enum class Path { on_hosts, nccl, mpi };
  Path path = Path::on_hosts;
  std::string remark;  ///< why `auto` does not use an available nccl
};

/// Facts for ranks that each have a device of their own (in builds for devices).
DeviceFacts expected_devices(int ranks);
/// Determines the actual facts. Collective.
DeviceFacts device_facts(const Communicator& ranks);

/// Creates the device all-reduce of this choice; null if sums are made on hosts. Rank 0 warns of the remark. Throws
/// SharedError if NCCL cannot connect the ranks. Collective.
std::unique_ptr<DeviceAllReduce> device_all_reduce(const DeviceSums& sums, const Communicator& ranks);

}  // namespace lockstep
