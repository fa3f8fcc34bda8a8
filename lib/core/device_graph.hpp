// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "core/execution.hpp"

namespace lockstep {

/// Work of a stream that is recorded once, and then begun by one call as often as wanted: CUDA's and HIP's graphs. Each
/// time its kernels have the arguments with which they were recorded, whatever the host has computed since.
class DeviceGraph {
 public:
  /// Whether this build records anything.
  static constexpr bool exist = runs_on_device;

  /// Records what `work` gives to `space`, and begins it. `work` has been done before, so that all that is made on
  /// first use is there; it neither waits for the device nor allocates. Where it cannot be recorded it is not begun,
  /// and failure() says why.
  DeviceGraph(const ExecSpace& space, const std::function<void()>& work);

  /// Whether the memory is still there with which Kokkos has had its kernels reduce: else it is to be recorded anew.
  bool is_valid(const ExecSpace& space) const;
  /// After what was given to `space` before; returns at once. Throws where the device does not take it.
  void launch(const ExecSpace& space) const;
  const std::string& failure() const { return failure_; }

 private:
  std::shared_ptr<void> recorded_;
  std::string failure_;                      ///< empty: none
  std::array<const void*, 2> scratch_ = {};  ///< of Kokkos'
};

}  // namespace lockstep
