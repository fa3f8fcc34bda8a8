// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

#include "core/stream_event.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// All-reduce sums in device memory, concurrent with its kernels and without copies to the host. All ranks start
/// the same sums in the same order; several may be in progress.
class DeviceAllReduce {
 public:
  virtual ~DeviceAllReduce() = default;

  /// Starts summing `values` in place after the event `written`, which follows the kernels that write them. The values
  /// must not be touched until the sum is done. Does not wait.
  virtual void start(const Tensor& values, const StreamEvent& written) = 0;
  /// Makes what progress is possible without waiting. Returns how many sums are still in progress; kernels started from
  /// now on see the results of the others. Throws Error if sums have become impossible.
  virtual std::size_t advance() = 0;
};

}  // namespace lockstep
