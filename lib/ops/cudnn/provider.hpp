// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "ops/provider.hpp"

namespace lockstep {

/// Convolutions and recurrent layers in fp32 and 16 bits, attention in 16 bits. Null if the build is not for CUDA, or
/// found no cuDNN.
const Provider* cudnn_provider();

/// cuDNN's description of the device that this process computes on (see DeviceDescription::properties). Throws
/// bad_usage if cudnn_provider() is null, and internal if there is no device.
std::string cudnn_device_properties();

}  // namespace lockstep
