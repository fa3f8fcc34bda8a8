// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A remark for each device that several ranks compute on; `places` says of each rank which host and device it has
/// ("node07 0000:3b:00.0"), or nothing.
std::vector<std::string> shared_devices(const std::vector<std::string>& places);

}  // namespace lockstep
