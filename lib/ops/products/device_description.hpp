// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A device that need not be present. Libraries can plan for it, but such plans cannot be run.
struct DeviceDescription {
  std::string name;
  std::int64_t memory_bytes = 0;
  int capability = 0;      ///< 90 stands for 9.0
  std::string properties;  ///< JSON in cuDNN's format (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
};

/// From the first plan on, makes this process plan for the device that `file` describes, as printed by `lockstep info
/// --device`. Throws missing_file, DeckError if the file is no such description, and bad_usage in builds whose kernels
/// run on the host.
void plan_for_described_device(const std::string& file);

/// The device of plan_for_described_device; null if plans are for the device that this process computes on.
const DeviceDescription* described_device();

/// Returns the description of the device that this process computes on. Throws bad_usage in builds without cuDNN, and
/// internal if there is no device.
std::string describe_device();

}  // namespace lockstep
