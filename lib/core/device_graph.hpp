// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/execution.hpp"

namespace lockstep {

/// Number of a step: either a value known to the host, or a location in device memory, from which kernels of a
/// DeviceGraph read the number of each step that they run in.
class StepNumber {
 public:
  constexpr StepNumber(std::int64_t number = 0) : number_(number) {}
  explicit constexpr StepNumber(const std::int64_t* in_memory) : in_memory_(in_memory) {}

  /// Callable in kernels, and on the host if it holds a value.
  KOKKOS_INLINE_FUNCTION std::int64_t operator()() const { return in_memory_ ? *in_memory_ : number_; }

 private:
  std::int64_t number_ = 0;
  const std::int64_t* in_memory_ = nullptr;
};

/// Work on a stream that is recorded once and then launched repeatedly, each time by one call: a CUDA or HIP graph.
/// Each launch uses the kernel arguments of the recording, whatever the host has computed since.
class DeviceGraph {
 public:
  /// True if this build can record work.
  static constexpr bool exist = runs_on_device;

  /// Records the work that `work` submits to `space`, and launches it once. `work` must have run before, so that
  /// everything created on first use exists; it must neither wait for the device nor allocate. If it cannot be
  /// recorded, nothing is launched and `failure()` says why.
  DeviceGraph(const ExecSpace& space, const std::function<void()>& work);

  /// True if Kokkos' scratch memory, which the recorded reductions use, is still the same; otherwise the work must be
  /// recorded again.
  bool is_valid(const ExecSpace& space) const;
  /// Launches the recording on `space` after the work submitted so far, and does not wait. Throws Error if the device
  /// refuses.
  void launch(const ExecSpace& space) const;
  const std::string& failure() const { return failure_; }

 private:
  std::shared_ptr<void> recorded_;
  std::string failure_;                      ///< empty: the recording succeeded
  std::array<const void*, 2> scratch_ = {};  ///< Kokkos' scratch memory at the time of recording
};

}  // namespace lockstep
