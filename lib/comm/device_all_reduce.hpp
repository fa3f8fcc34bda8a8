// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// All-reduce sums in device memory, concurrent with its kernels and without copies to the host. All ranks start
/// the same sums in the same order; several may be in progress.
class DeviceAllReduce {
 public:
  virtual ~DeviceAllReduce() = default;

  /// Starts summing `values` in place after the event `written`, which follows the kernels that write them. The values
  /// must not be touched until the sum is done. Does not wait.
  virtual void start(const Tensor& values, const StreamEvent& written) = 0;
  /// Makes what progress is possible without waiting. Returns how many sums are still in progress; kernels started from
  /// now on see the results of the others. Throws Error if sums have become impossible.
  virtual std::size_t advance() = 0;
};

/// Sums of the MPI library, one after the other, directly in device memory, which the library must support.
/// Collective.
std::unique_ptr<DeviceAllReduce> mpi_device_all_reduce(const Communicator& ranks);

/// True if, on every rank, the MPI library claims to support device memory and has summed known numbers in it
/// correctly. Collective.
bool mpi_takes_device_memory(const Communicator& ranks);

/// "NCCL 2.28.9", or the same for RCCL, the library for AMD's devices; empty if this build has neither.
std::string nccl_version();

/// Sums by NCCL in a stream of their own. Every rank must have a device of its own. Throws SharedError if the library
/// cannot connect the ranks. Collective.
std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator& ranks);

/// Host and device of this rank, "node07 0000:3b:00.0"; empty if kernels run on the host.
std::string own_device_place();

/// Returns a remark for each device that several ranks use; `places`: own_device_place() of the ranks, in rank order.
std::vector<std::string> shared_devices(const std::vector<std::string>& places);

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
