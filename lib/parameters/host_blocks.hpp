// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <vector>

#include "core/device.hpp"
#include "core/tensor.hpp"
#include "parameters/streamed_blocks.hpp"

namespace lockstep {

/// A block store in pinned host memory, for kernels that work in device memory. Copies in each direction run in a
/// stream of their own, next to the step's, so that the host waits for none.
class HostBlocks final : public BlockStore {
 public:
  /// Throws Error(internal) if the device has no room for the slots.
  HostBlocks(std::size_t block_bytes, std::size_t slots);
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;
  ~HostBlocks() override { settle(); }

  std::byte* memory(std::size_t slot) const override { return slots_.data() + slot * block_bytes_; }
  /// Throws Error(internal) if the host has no room.
  void reserve(std::uint64_t bytes) override;
  void follow(const ExecSpace& space) override;
  void start_read(std::size_t slot, std::uint64_t place) override;
  void start_write(std::size_t slot, std::uint64_t place) override;
  bool has_read(std::size_t slot) override { return read_[slot]->has_happened(); }
  void await_read(const ExecSpace& space, std::size_t slot) override { wait_for(space, *read_[slot]); }
  void start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) override;
  bool has_fetched() override { return true; }
  void settle() override;
  void read(std::uint64_t place, std::byte* to, std::size_t bytes) override;
  void write(std::uint64_t place, const std::byte* from, std::size_t bytes) override;

 private:
  /// Memory added by one call of `reserve`.
  struct Piece {
    std::uint64_t first = 0;
    StagingMemory bytes;
  };
  std::byte* at(std::uint64_t place) const;
  Tensor tensor(std::size_t slot) const { return {memory(slot), DType::u8, {static_cast<std::int64_t>(block_bytes_)}}; }

  std::size_t block_bytes_;
  Buffer slots_;
  ExecSpace reads_, writes_;
  std::vector<std::optional<StreamEvent>> read_;  ///< event after each slot's last read
  std::vector<Piece> pieces_;                     ///< ordered by their first place
};

}  // namespace lockstep
