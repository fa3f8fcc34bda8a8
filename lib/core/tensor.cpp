// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/tensor.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <exception>
#include <type_traits>

#include "base/error.hpp"
#include "core/memory_plan.hpp"

namespace lockstep {
namespace {

template <class Byte, class Space>
using Bytes = Kokkos::View<Byte*, Space, Kokkos::MemoryUnmanaged>;

Bytes<std::byte, MemorySpace> bytes_of(const Tensor& tensor) {
  assert(tensor.bytes() == 0 || is_device_memory(tensor.data));
  return Bytes<std::byte, MemorySpace>(static_cast<std::byte*>(tensor.data), tensor.bytes());
}

[[maybe_unused]] bool is_host_memory(const void* address) {
  return !LOCKSTEP_FAKE_DEVICE || !fake_device::owns(address);
}

/// Asks for 2 MiB pages for memory not touched yet: with small pages, matrix products and optimizers walk over so much
/// memory that they wait for address translation. The system may ignore the request.
[[maybe_unused]] void ask_for_huge_pages(std::byte* data, std::size_t bytes) {
  constexpr std::uintptr_t page = 2 << 20;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

/// Runs `work` and converts its exception to an Error about exhausted memory.
template <class Work>
void allocate(const std::string& label, std::size_t bytes, const char* advice, const Work& work) {
  try {
    work();
  } catch (const std::exception&) {  // the exception's type depends on the version of Kokkos
    throw Error(ExitStatus::internal, fmt::format("out of memory ({} bytes for {}); {}", bytes, label, advice));
  }
}

}  // namespace

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::u8: return 1;
    case DType::i32: return 4;
    case DType::i64: return 8;
    case DType::bf16: return 2;
    case DType::f16: return 2;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::u8: return "u8";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
  }
  return "";
}

void refuse_dtype(DType dtype, std::string_view wanted) {
  throw Error(ExitStatus::internal, fmt::format("a tensor has type {}, but {} is needed", name_of(dtype), wanted));
}

Buffer::Buffer(const std::string& label, std::size_t bytes) : size_(bytes) {
  allocate(label, bytes, memory_advice, [&] {
    if constexpr (LOCKSTEP_FAKE_DEVICE) {
      assert(Kokkos::is_initialized());  // devices have no memory before that, and login nodes no device
      data_ = fake_device::allocate(label, bytes);
    } else {
      const std::size_t room = is_a_device ? memory_alignment : 0;  // Kokkos puts a header of 128 bytes in front
      const Kokkos::View<std::byte*, MemorySpace> view(Kokkos::view_alloc(label, Kokkos::WithoutInitializing),
                                                       bytes + room);
      if constexpr (std::is_same_v<MemorySpace, Kokkos::HostSpace>) ask_for_huge_pages(view.data(), bytes);
      Kokkos::deep_copy(view, std::byte{0});
      const auto address = reinterpret_cast<std::uintptr_t>(view.data());
      data_ = {view.data() + (room > 0 ? align_up(address) - address : 0), [view](std::byte*) {}};
    }
  });
}

Buffer Buffer::borrow(std::byte* data, std::size_t bytes) {
  Buffer buffer;
  buffer.data_ = {std::shared_ptr<void>(), data};
  buffer.size_ = bytes;
  return buffer;
}

StagingMemory staging_memory(const std::string& label, std::size_t bytes, const char* advice) {
  StagingMemory memory;
  allocate(label, bytes, advice, [&] { memory = StagingMemory(label, bytes); });
  return memory;
}

void copy_to_host(const ExecSpace& space, const Tensor& from, void* to) {
  assert(is_host_memory(to));
  Kokkos::deep_copy(space, Bytes<std::byte, Kokkos::HostSpace>(static_cast<std::byte*>(to), from.bytes()),
                    bytes_of(from));
  space.fence("lockstep::copy_to_host");
}

double f64_on_host(const ExecSpace& space, const Tensor& number) {
  double value = 0;
  copy_to_host(space, number, &value);
  return value;
}

void copy_from_host(const ExecSpace& space, const void* from, const Tensor& to) {
  assert(is_host_memory(from));
  Kokkos::deep_copy(space, bytes_of(to),
                    Bytes<const std::byte, Kokkos::HostSpace>(static_cast<const std::byte*>(from), to.bytes()));
  space.fence("lockstep::copy_from_host");
}

void start_copy_from_host(const ExecSpace& space, const void* from, const Tensor& to) {
  assert(is_host_memory(from));
  if constexpr (LOCKSTEP_FAKE_DEVICE) {
    fake_device::copy_later(space.impl_internal_space_instance(), to.data, from, to.bytes());
  } else {
    Kokkos::deep_copy(space, bytes_of(to),
                      Bytes<const std::byte, StagingSpace>(static_cast<const std::byte*>(from), to.bytes()));
  }
}

void start_copy_to_host(const ExecSpace& space, const Tensor& from, void* to) {
  assert(is_host_memory(to));
  if constexpr (LOCKSTEP_FAKE_DEVICE) {
    fake_device::copy_later(space.impl_internal_space_instance(), to, from.data, from.bytes());
  } else {
    Kokkos::deep_copy(space, Bytes<std::byte, StagingSpace>(static_cast<std::byte*>(to), from.bytes()), bytes_of(from));
  }
}

void copy(const ExecSpace& space, const Tensor& from, const Tensor& to) {
  Kokkos::deep_copy(space, bytes_of(to), bytes_of(from));
}

void fill_zero(const ExecSpace& space, const Tensor& tensor) {
  Kokkos::deep_copy(space, bytes_of(tensor), std::byte{0});
}

}  // namespace lockstep
