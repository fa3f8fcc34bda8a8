// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

/// Preset fake_device: kernels run on the host, and the step's memory is as far from it as a GPU's. Its pages can be
/// read and written inside Kokkos' kernels and copies alone; anything else that touches them ends the program by
/// SIGSEGV, after a message and a backtrace. Copies that may still be under way when their call returns are made as
/// late as possible, so that a missing wait shows: those of the step's stream at the next fence, or before the next
/// kernel or copy; those of a stream beside it at the next fence, or when an event after them is waited for.
namespace lockstep::fake_device {

/// Zeroed, at the start of a page, and between pages that nobody may touch. Kokkos must have started. Throws
/// std::bad_alloc.
std::shared_ptr<std::byte> allocate(const std::string& label, std::size_t bytes);

/// Bytes of it that are asked for now.
std::size_t bytes_in_use();

/// Whether the address is within such memory.
bool owns(const void* address);

/// Has a stream from here on work beside the step's.
void add_stream(const void* stream);

/// Copies bytes, of which one side is the host's, as late as possible. Where `from` is the device's, and the stream
/// beside the step's is not ordered after all kernels that have been started, numbers that are none arrive.
void copy_later(const void* stream, void* to, const void* from, std::size_t bytes);

/// A moment in the work of a stream: how many copies it has been given, and which kernels it comes after.
struct Moment {
  const void* stream = nullptr;
  std::uint64_t copies = 0, kernels = 0;
};
Moment now(const void* stream);
/// Makes the copies before it that are left; whether there were none. So a moment after copies has not come yet when
/// it is first asked for.
bool has_come(const Moment& moment);
/// The stream's work from here on comes after that moment.
void order(const void* stream, const Moment& after);

/// Kernels with the host's values as they are when this is made, however often and however late they run. For that a
/// process that is a copy of this one stands by; whenever they are to run, it has a copy of itself do `work`, on the
/// same memory of the device. What the host of that copy computes is lost, and so are copies to the host.
class FrozenWork {
 public:
  explicit FrozenWork(const std::function<void()>& work);
  FrozenWork(const FrozenWork&) = delete;
  FrozenWork& operator=(const FrozenWork&) = delete;
  ~FrozenWork();

  /// As kernels of the step's stream do, after its copies. Throws std::runtime_error where the work ends by a signal
  /// or an exception, of which the copy has spoken.
  void run() const;

 private:
  int process_, line_;
};

}  // namespace lockstep::fake_device
