// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "ops/convolution.hpp"

namespace lockstep {

/// A convolution that MIOpen has planned for the device of this process; null if MIOpen declines.
std::unique_ptr<Convolution> plan_miopen_convolution(const ConvolutionShape& shape);

/// The version of the loaded MIOpen, as in "3.4.0".
std::string miopen_version();

}  // namespace lockstep
