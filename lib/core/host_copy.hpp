// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "core/stream_event.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// A few numbers of the step's memory that are on their way to the host, which goes on meanwhile.
template <class T>
class HostCopy {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Copies a T as it is after the work given to `space` so far.
  void start(const ExecSpace& space, const T* from) {
    start_copy_to_host(space, {const_cast<T*>(from), DType::u8, {sizeof(T)}}, place_.data());
    done_.emplace(space);
  }
  /// Waits for it.
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
