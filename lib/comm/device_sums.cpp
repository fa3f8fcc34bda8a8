// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/device_sums.hpp"

#include "base/log.hpp"
#include "comm/mpi_device_all_reduce.hpp"
#include "comm/nccl/nccl.hpp"
#include "comm/shared_devices.hpp"

namespace lockstep {

DeviceFacts expected_devices(int ranks) {
  return {.ranks = ranks, .all_have_devices = runs_on_device, .has_nccl = !nccl_version().empty()};
}

DeviceFacts device_facts(const Communicator& ranks) {
  const std::vector<std::string> places = ranks.gather_to_root(own_device_place());
  const std::vector<std::string> remarks = shared_devices(places);
  DeviceFacts facts = expected_devices(ranks.size());
  if (!remarks.empty()) facts.shared = remarks.front();
  ranks.broadcast(facts.shared);
  facts.emulates_network = ranks.network() != nullptr;
  return facts;
}

std::unique_ptr<DeviceAllReduce> device_all_reduce(const DeviceSums& sums, const Communicator& ranks) {
  if (!sums.remark.empty() && ranks.is_root()) warn_line(sums.remark);
  switch (sums.path) {
    case DeviceSums::Path::nccl: return nccl_all_reduce(ranks);
    case DeviceSums::Path::mpi:
      if (mpi_takes_device_memory(ranks)) return mpi_device_all_reduce(ranks);
      if (ranks.is_root())
        warn_line(
            "parallel.all_reduce: this MPI library cannot sum device memory; gradients are copied to the hosts first");
      return nullptr;
    case DeviceSums::Path::on_hosts: break;
  }
  return nullptr;
}

}  // namespace lockstep
