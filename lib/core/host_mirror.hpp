// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

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

}  // namespace lockstep
