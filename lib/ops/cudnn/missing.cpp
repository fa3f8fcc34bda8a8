// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/error.hpp"
#include "ops/cudnn/provider.hpp"

namespace lockstep {

const Provider* cudnn_provider() { return nullptr; }

std::string cudnn_device_properties() {
  throw Error(
      ExitStatus::bad_usage,
      "info --device: this build has no cuDNN, which describes devices; use a build for NVIDIA GPUs, where there is one");
}

}  // namespace lockstep
