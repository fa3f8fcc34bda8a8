// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

#include "core/stream_event.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// Sums over all ranks in the step's own memory, beside its kernels: nothing is copied to the host and back. All ranks
/// start the same sums in the same order, and several may be under way.
class DeviceAllReduce {
 public:
  virtual ~DeviceAllReduce() = default;

  /// Begins to add up `values` in place, once `written` has happened: when the kernels that write them are done. They
  /// stay where they are until the sum is done.
  virtual void start(const Tensor& values, const StreamEvent& written) = 0;
  /// Goes on as far as that goes without waiting. How many sums are still under way; all kernels that are started from
  /// now on find the others. Throws Error where sums cannot be done any more.
  virtual std::size_t advance() = 0;
};

}  // namespace lockstep
