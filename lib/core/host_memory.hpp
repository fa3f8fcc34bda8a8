// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>

#include "core/device.hpp"
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

/// Numbers of device memory where the host, and MPI, can read and write them: in place, or on a device with memory
/// of its own in a copy on the host. Parts are given as tensors in the memory of the whole.
class HostMirror {
 public:
  /// `whole` must outlive this object. Throws Error(internal) if there is not enough memory.
  HostMirror(const char* label, const Tensor& whole)
      : first_(static_cast<const std::byte*>(whole.data)), host_(static_cast<std::byte*>(whole.data)) {
    if constexpr (memory_is_separate) {
      staging_ = staging_memory(label, whole.bytes());
      host_ = staging_.data();
    }
  }

  /// Returns where the host has the whole.
  std::byte* data() const { return host_; }
  /// Returns where the host has a part.
  std::byte* of(const Tensor& part) const { return host_ + (static_cast<const std::byte*>(part.data) - first_); }
  /// Waits until the work submitted to `space` is done, and the host has what it has made of a part.
  void to_host(const ExecSpace& space, const Tensor& part) const {
    if constexpr (memory_is_separate) copy_to_host(space, part, of(part));
    else space.fence("lockstep::host_mirror");
  }
  /// Gives device memory what the host has of a part.
  void from_host(const ExecSpace& space, const Tensor& part) const {
    if constexpr (memory_is_separate) copy_from_host(space, of(part), part);
  }

 private:
  StagingMemory staging_;
  const std::byte* first_;
  std::byte* host_;
};

/// Pins host memory, which must outlive this object, so that copies between it and the device are asynchronous. If
/// pinning is refused (limit of locked memory), copies are slower and the host waits for them. No effect in host
/// builds.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(void* data, std::size_t bytes);

 private:
  std::shared_ptr<void> pinned_;
};

/// Returns freed memory, which the C library keeps for later allocations, to the system. Worth calling after a set-up
/// with a high temporary demand, such as drawing all initial parameters on a rank that keeps only its shard. No effect
/// where the C library has no such call.
void give_back_freed_memory();

}  // namespace lockstep
