// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "ops/provider.hpp"

namespace lockstep {

/// Convolutions and recurrent layers of fp32 and 16 bits, attention of 16 bits. Null where the build is not for CUDA,
/// or had no cuDNN.
const Provider* cudnn_provider();

/// What cuDNN says of the device that this process computes on (see DeviceDescription::properties). Throws bad_usage
/// where cudnn_provider() is null, and internal where there is no device.
std::string cudnn_device_properties();

}  // namespace lockstep
