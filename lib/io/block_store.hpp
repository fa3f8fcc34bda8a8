// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/execution.hpp"

namespace lockstep {

/// Storage for blocks of bytes, with a few slots in device memory through which they pass. Started operations run
/// concurrently with the step's work. A read sees all writes started before it, and does not overwrite its slot before
/// they have left it. After a failure, every call that can fail throws io_error on the calling thread.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  virtual std::byte* memory(std::size_t slot) const = 0;
  /// Makes the store at least `bytes` long; new bytes are zero. Throws if there is no room.
  virtual void reserve(std::uint64_t bytes) = 0;

  /// Orders operations started from now on after the work submitted to `space` so far.
  virtual void follow(const ExecSpace& space) = 0;
  /// Starts reading the bytes from `place` on into a slot, or writing a slot to `place`.
  virtual void start_read(std::size_t slot, std::uint64_t place) = 0;
  virtual void start_write(std::size_t slot, std::uint64_t place) = 0;
  /// True if the last read into the slot is done.
  virtual bool has_read(std::size_t slot) = 0;
  /// Orders work submitted to `space` from now on after the last read into the slot.
  virtual void await_read(const ExecSpace& space, std::size_t slot) = 0;
  /// Starts copying bytes of any place and length to other host memory, which belongs to the store until `has_fetched`.
  /// Sees all writes started before.
  virtual void start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  /// True if all started fetches are done.
  virtual bool has_fetched() = 0;
  /// Waits until everything started is done or has failed.
  virtual void settle() = 0;

  // Synchronous access to bytes of any place and length, from any thread, but not while a started operation uses them.
  virtual void read(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  virtual void write(std::uint64_t place, const std::byte* from, std::size_t bytes) = 0;
};

}  // namespace lockstep
