// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A device that need not be there: libraries plan for it, and what they plan cannot be run.
struct DeviceDescription {
  std::string name;
  std::int64_t memory_bytes = 0;
  int capability = 0;      ///< 90 for 9.0
  std::string properties;  ///< JSON as cuDNN writes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
};

/// Has this process plan for the device that `file` describes, from the first plan on; the file is what `lockstep info
/// --device` prints. Throws missing_file, DeckError for what is no such description, and bad_usage in builds whose
/// kernels run on the host.
void plan_for_described_device(const std::string& file);

/// The one of plan_for_described_device; null: plans are for the device that this process computes on.
const DeviceDescription* described_device();

/// The description of the device that this process computes on. Throws bad_usage in builds without cuDNN, and internal
/// where there is no device.
std::string describe_device();

}  // namespace lockstep
