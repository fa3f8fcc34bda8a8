// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// Parameters that other ranks have updated and that may still be arriving when a forward pass begins. The first
/// layers' parameters, which come last in the buffer, arrive first.
class ParameterArrival {
 public:
  virtual ~ParameterArrival() = default;
  /// True if the parameters from element `first` of the flat buffer to its end have arrived. Does not wait, but
  /// advances the transfer.
  virtual bool have_arrived(const ExecSpace& space, std::int64_t first) = 0;
  /// Waits until the parameters from element `first` of the flat buffer to its end have arrived.
  virtual void await(const ExecSpace& space, std::int64_t first) = 0;
};

}  // namespace lockstep
