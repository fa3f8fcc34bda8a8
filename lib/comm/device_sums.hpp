// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"

namespace lockstep {

/// What can sum where ranks compute; the same on all of them.
struct DeviceFacts {
  int ranks = 1;
  bool all_have_devices = false;
  std::string shared;  ///< ranks of which several compute on one device; empty: none do
  bool has_nccl = false;
  bool emulates_network = false;
};

/// Where gradients are summed: in the host's memory, or in the devices'.
struct DeviceSums {
  enum class Path { on_hosts, nccl, mpi };
  Path path = Path::on_hosts;
  std::string remark;  ///< why `auto` does without nccl, which is there
};

/// Of ranks that each have a device for themselves, where this build computes on devices.
DeviceFacts expected_devices(int ranks);
/// As it is. Collective.
DeviceFacts device_facts(const Communicator& ranks);

/// The sums of that choice; null: on hosts. Warns once of a remark. Throws SharedError where NCCL cannot connect the
/// ranks. Collective.
std::unique_ptr<DeviceAllReduce> device_all_reduce(const DeviceSums& sums, const Communicator& ranks);

}  // namespace lockstep
