// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/execution.hpp"

namespace lockstep {

/// Where blocks of bytes are kept, and a few slots of the step's memory, through which they pass. What is started is
/// done beside the step's work; a read finds what the writes that were started before it have written, and its slot
/// free of them. What fails throws io_error in all calls that can, from there on, on the thread that calls.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  virtual std::byte* memory(std::size_t slot) const = 0;
  /// Has room for so many bytes from here on, of which new ones are zero. Throws where there is none.
  virtual void reserve(std::uint64_t bytes) = 0;

  /// What is started from here on comes after the work that `space` has been given.
  virtual void follow(const ExecSpace& space) = 0;
  /// Fills a slot with the bytes from `place` on, or writes it there.
  virtual void start_read(std::size_t slot, std::uint64_t place) = 0;
  virtual void start_write(std::size_t slot, std::uint64_t place) = 0;
  /// Whether the last read into the slot is done.
  virtual bool has_read(std::size_t slot) = 0;
  /// The work that `space` is given from here on comes after it.
  virtual void await_read(const ExecSpace& space, std::size_t slot) = 0;
  /// Copies bytes, of any place and length, to other memory of the host, which is free until has_fetched. What it
  /// finds is as with start_read.
  virtual void start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  /// Whether all that was to be fetched is there.
  virtual bool has_fetched() = 0;
  /// Returns when all that was started is done, or has failed.
  virtual void settle() = 0;

  // Of any place and length, and any thread; not beside what was started of the same bytes.
  virtual void read(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  virtual void write(std::uint64_t place, const std::byte* from, std::size_t bytes) = 0;
};

}  // namespace lockstep
