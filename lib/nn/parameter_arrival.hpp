// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// Parameters that other ranks have changed, and that may still be on their way when a forward pass begins: those of
/// the network's first layers, which stand last in the buffer, come first.
class ParameterArrival {
 public:
  virtual ~ParameterArrival() = default;
  /// Whether those from element `first` of the flat buffer on are there; goes on with what is on its way.
  virtual bool have_arrived(const ExecSpace& space, std::int64_t first) = 0;
  /// Until they are.
  virtual void await(const ExecSpace& space, std::int64_t first) = 0;
};

}  // namespace lockstep
