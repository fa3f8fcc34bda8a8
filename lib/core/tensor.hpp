// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/element_range.hpp"
#include "core/execution.hpp"
#include "core/fake_device.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// True if kernels can use the address. Only preset fake_device can tell; other builds accept any non-null address.
inline bool is_device_memory(const void* address) {
  if constexpr (LOCKSTEP_FAKE_DEVICE) return fake_device::owns(address);
  else return address != nullptr;
}

/// A view of row-major numbers in device memory: where kernels run, which is host memory in builds for CPUs. It owns
/// nothing and is cheap to copy: storage belongs to a Buffer (activation arena, parameter buffer, …). In argument
/// lists, an empty Tensor (no data) means "not wanted".
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  template <class T>
  T* as() const {
    assert(dtype == dtype_of<std::remove_const_t<T>>());
    assert(!data || is_device_memory(data));
    return static_cast<T*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  Tensor reshaped(const Shape& other) const {
    assert(other.count() == shape.count());
    return {data, dtype, other};
  }
};

/// Advice for errors about exhausted memory of a host or a device.
inline constexpr char memory_advice[] =
    "if this grows with the examples, use a smaller batch.micro or batch.global, or more ranks; if it grows with the "
    "model, use a smaller model, or more ranks that share it (parallel.shard)";

/// Owns zeroed device memory. Allocated while a step is planned, never during one. Copies share the memory.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error(internal) if there is not enough memory.
  Buffer(const std::string& label, std::size_t bytes);
  /// Refers to memory owned by someone else, who must keep it alive.
  static Buffer borrow(std::byte* data, std::size_t bytes);

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  Tensor tensor(std::size_t offset, DType dtype, const Shape& shape) const {
    assert(offset + static_cast<std::size_t>(shape.count()) * size_of(dtype) <= size());
    return {data() + offset, dtype, shape};
  }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
};

/// A Buffer that holds one tensor.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(const std::string& label, DType dtype, const Shape& shape)
      : buffer_(label, static_cast<std::size_t>(shape.count()) * size_of(dtype)),
        tensor_(buffer_.tensor(0, dtype, shape)) {}

  const Tensor& get() const { return tensor_; }
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

using StagingMemory = Kokkos::View<std::byte*, StagingSpace>;
/// Allocates zeroed host memory. Throws Error(internal), whose message ends with `advice`, if there is not enough.
StagingMemory staging_memory(const std::string& label, std::size_t bytes, const char* advice = memory_advice);

/// Copies between the host and device memory, and waits for the copy.
void copy_to_host(const ExecSpace& space, const Tensor& from, void* to);
void copy_from_host(const ExecSpace& space, const void* from, const Tensor& to);
/// Copies an f64 scalar, shape [1], to the host, and waits for it.
double f64_on_host(const ExecSpace& space, const Tensor& number);
/// Starts a copy in the order of `space`; does not wait. `from` must be in StagingSpace memory and stay unchanged until
/// the next fence of `space`.
void start_copy_from_host(const ExecSpace& space, const void* from, const Tensor& to);
/// Starts a copy in the order of `space`; does not wait. `to` must be in StagingSpace memory or PinnedMemory; it holds
/// the numbers once an event recorded after this call has happened.
void start_copy_to_host(const ExecSpace& space, const Tensor& from, void* to);
/// Copies within device memory, in the order of `space`; does not wait.
void copy(const ExecSpace& space, const Tensor& from, const Tensor& to);
void fill_zero(const ExecSpace& space, const Tensor& tensor);

/// Returns a view of the elements `range` of a flat tensor.
inline Tensor flat_part(const Tensor& numbers, ElementRange range) {
  return {static_cast<std::byte*>(numbers.data) + static_cast<std::size_t>(range.first) * size_of(numbers.dtype),
          numbers.dtype,
          {range.count}};
}

}  // namespace lockstep
