// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Host and device of this rank, "node07 0000:3b:00.0"; empty if kernels run on the host.
std::string own_device_place();

/// Returns a remark for each device that several ranks use; `places`: own_device_place() of the ranks, in rank order.
std::vector<std::string> shared_devices(const std::vector<std::string>& places);

}  // namespace lockstep
