// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/tensor.hpp"

#include <exception>

#include "base/error.hpp"

namespace lockstep {
namespace {

template <class Space>
using Bytes = Kokkos::View<std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

Bytes<MemorySpace> bytes_of(const Tensor& tensor) {
  return Bytes<MemorySpace>(static_cast<std::byte*>(tensor.data), tensor.bytes());
}

}  // namespace

Buffer::Buffer(const std::string& label, std::size_t bytes) {
  try {
    storage_ = Kokkos::View<std::byte*, MemorySpace>(label, bytes);
  } catch (const std::exception&) {  // of a type that differs from Kokkos to Kokkos
    throw Error(ExitStatus::internal, fmt::format("{} ({} bytes for {})", out_of_memory, bytes, label));
  }
}

Buffer Buffer::borrow(std::byte* data, std::size_t bytes) {
  Buffer buffer;
  buffer.storage_ = Kokkos::View<std::byte*, MemorySpace>(data, bytes);
  return buffer;
}

void copy_to_host(const ExecSpace& space, const Tensor& from, void* to) {
  Kokkos::deep_copy(space, Bytes<Kokkos::HostSpace>(static_cast<std::byte*>(to), from.bytes()), bytes_of(from));
  space.fence("lockstep::copy_to_host");
}

void copy_from_host(const ExecSpace& space, const void* from, const Tensor& to) {
  using ConstBytes = Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  Kokkos::deep_copy(space, bytes_of(to), ConstBytes(static_cast<const std::byte*>(from), to.bytes()));
  space.fence("lockstep::copy_from_host");
}

void copy(const ExecSpace& space, const Tensor& from, const Tensor& to) {
  Kokkos::deep_copy(space, bytes_of(to), bytes_of(from));
}

void fill_zero(const ExecSpace& space, const Tensor& tensor) {
  Kokkos::deep_copy(space, bytes_of(tensor), std::byte{0});
}

}  // namespace lockstep
