// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/error.hpp"
#include "ops/products/provider.hpp"

namespace lockstep {

const Provider* cudnn_provider() { return nullptr; }

std::string cudnn_device_properties() {
  throw Error(
      ExitStatus::bad_usage,
      "info --device: cuDNN, which describes the device, is not in this build; use an NVIDIA GPU build on a machine "
      "with a GPU");
}

}  // namespace lockstep
