// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "core/stream_event.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// Asynchronous copy of a small struct from device memory to the host.
template <class T>
class HostCopy {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Starts copying a T, in order after the work submitted to `space` so far; does not wait.
  void start(const ExecSpace& space, const T* from) {
    start_copy_to_host(space, {const_cast<T*>(from), DType::u8, {sizeof(T)}}, place_.data());
    done_.emplace(space);
  }
  /// Waits for the copy and returns the value. `start` must have been called.
  T take() {
    done_->wait();
    T value;
    std::memcpy(&value, place_.data(), sizeof(T));
    return value;
  }

 private:
  Kokkos::View<std::byte*, StagingSpace> place_{Kokkos::view_alloc("lockstep::host_copy", Kokkos::WithoutInitializing),
                                                sizeof(T)};
  std::optional<StreamEvent> done_;
};

}  // namespace lockstep
