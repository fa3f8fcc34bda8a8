// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/shared_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/process.hpp"
#include "comm/communicator.hpp"
#include "core/device.hpp"

namespace lockstep {

std::string own_device_place() {
  const std::string address = device_address();
  return address.empty() ? "" : fmt::format("{} {}", host_name(), address);
}

std::vector<std::string> shared_devices(const std::vector<std::string>& places) {
  std::map<std::string, std::vector<std::size_t>> ranks_on;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (!places[rank].empty()) ranks_on[places[rank]].push_back(rank);
  std::vector<std::string> remarks;
  for (const auto& [place, ranks] : ranks_on)
    if (ranks.size() > 1)
      remarks.push_back(
          fmt::format("ranks {} share one device ({}), and compute in turns; request one device for each rank, or "
                      "start fewer ranks",
                      fmt::join(ranks, ", "), place));
  return remarks;
}

}  // namespace lockstep
