// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "ops/convolution.hpp"

namespace lockstep {

/// Planned by MIOpen for the device of this process; null for what it declines.
std::unique_ptr<Convolution> plan_miopen_convolution(const ConvolutionShape& shape);

/// The version of the MIOpen that is loaded, as "3.4.0".
std::string miopen_version();

}  // namespace lockstep
