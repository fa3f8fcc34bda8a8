// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/miopen/provider.hpp"

#include "core/device.hpp"
#include "ops/miopen/convolution.hpp"

namespace lockstep {
namespace {

class MiopenProvider final : public Provider {
 public:
  std::string_view name() const override { return "miopen"; }
  std::string version() const override { return miopen_version(); }
  /// Null if there is no device, because `check` also plans on login nodes.
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    return device_count() > 0 ? plan_miopen_convolution(shape) : nullptr;
  }
};

}  // namespace

const Provider* miopen_provider() {
  static const MiopenProvider provider;
  return &provider;
}

}  // namespace lockstep
