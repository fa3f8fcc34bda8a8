// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The host and device of this rank, "node07 0000:3b:00.0"; empty where kernels run on the host.
std::string own_device_place();

/// A remark for each device that several ranks compute on; `places`: those of the ranks, in their
/// order.
std::vector<std::string> shared_devices(const std::vector<std::string>& places);

}  // namespace lockstep
