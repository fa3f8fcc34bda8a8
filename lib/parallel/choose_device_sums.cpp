// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/choose_device_sums.hpp"

#include "comm/collective/algorithm.hpp"
#include "config/deck.hpp"

namespace lockstep {

DeviceSums choose_device_sums(const ParallelConfig& config, const DeviceFacts& facts) {
  using Path = DeviceSums::Path;
  if (config.tree_leaves() > 0) return {};
  validate_key(!config.compress.present || !facts.all_have_devices, "parallel.compress",
               "gradients are compressed in host memory, but kernels run on devices here; leave it out");
  if (config.sums.all_reduce && config.sums.all_reduce->in_device_memory) {
    const char* const key = "parallel.all_reduce";
    validate_key(facts.has_nccl, key,
                 "nccl is not in this build; choose auto, or build for devices with NCCL or RCCL (`lockstep info` "
                 "shows what a build has)");
    validate_key(facts.all_have_devices, key, "nccl sums between devices, but kernels run on hosts here; choose auto");
    validate_key(facts.shared.empty(), key, "nccl needs a device for each rank, but {}, or choose auto", facts.shared);
    validate_key(!facts.emulates_network, key,
                 "nccl cannot be combined with --emulate-network (it sends its messages itself); choose auto, or "
                 "leave --emulate-network out");
    return {facts.ranks == 1 ? Path::on_hosts : Path::nccl, ""};
  }
  if (facts.ranks == 1 || !facts.all_have_devices || facts.emulates_network) return {};
  if (config.sums.all_reduce) return {config.sums.all_reduce->by_library ? Path::mpi : Path::on_hosts, ""};
  const bool divides = config.sharding.divides();
  if (divides || !config.sums.all_reduce_table.empty() || !facts.has_nccl) return {};
  if (facts.shared.empty()) return {Path::nccl, ""};
  return {Path::on_hosts, "gradients are summed on the hosts, because nccl needs a device for each rank"};
}

}  // namespace lockstep
