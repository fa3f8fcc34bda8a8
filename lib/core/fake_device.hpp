// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

/// Preset fake_device: kernels run on the host, but device memory is as separate from it as a GPU's. Its pages can
/// be accessed only inside Kokkos' kernels and copies; any other access ends the program by SIGSEGV, after a message
/// and a backtrace. Asynchronous copies are executed as late as possible, so that a missing wait shows: those on the
/// step's stream at the next fence, kernel or copy; those on another stream at the next fence, or when an event after
/// them is waited for. The code is in tests/support/fake_device.cpp.
namespace lockstep::fake_device {

/// Allocates zeroed, page-aligned memory between inaccessible guard pages. Kokkos must be initialized. Throws
/// std::bad_alloc.
std::shared_ptr<std::byte> allocate(const std::string& label, std::size_t bytes);

/// Bytes of such memory currently requested.
std::size_t bytes_in_use();

/// True if the address is within such memory.
bool owns(const void* address);

/// Registers a stream that runs next to the step's stream.
void add_stream(const void* stream);

/// Queues a copy of `bytes` bytes between host and device, executed as late as possible. If `from` is device memory and
/// `stream` is a registered one that is not ordered after all kernels started so far, the copy delivers NaN.
void copy_later(const void* stream, void* to, const void* from, std::size_t bytes);

/// A point in a stream: how many copies had been queued, and which kernels it is ordered after.
struct Moment {
  const void* stream = nullptr;
  std::uint64_t copies = 0, kernels = 0;
};
Moment now(const void* stream);
/// Executes the copies before the point that are still pending, and returns true if there were none. So the first query
/// after a copy always answers "not yet".
bool has_come(const Moment& moment);
/// Orders the stream's later work after that point.
void order(const void* stream, const Moment& after);

/// Work whose kernels see the host's values of the time of construction, however often and late they run. A forked
/// process keeps these values; for each run it forks a child that executes `work` on the same, shared device memory.
/// What the child computes on the host is lost, and so are its copies to the host.
class FrozenWork {
 public:
  explicit FrozenWork(const std::function<void()>& work);
  FrozenWork(const FrozenWork&) = delete;
  FrozenWork& operator=(const FrozenWork&) = delete;
  ~FrozenWork();

  /// Runs the work in the order of the step's stream, after its queued copies. Throws std::runtime_error if the work
  /// ends by a signal or an exception, which the child has reported on standard error.
  void run() const;

 private:
  int process_, line_;
};

}  // namespace lockstep::fake_device
