// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/host_blocks.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace lockstep {

HostBlocks::HostBlocks(std::size_t block_bytes, std::size_t slots)
    : block_bytes_(block_bytes),
      slots_("lockstep::host_blocks", slots * block_bytes),
      reads_(space_beside(ExecSpace())),
      writes_(space_beside(ExecSpace())),
      read_(slots) {}

void HostBlocks::reserve(std::uint64_t bytes) {
  const std::uint64_t first = pieces_.empty() ? 0 : pieces_.back().first + pieces_.back().bytes.size();
  if (bytes <= first) return;
  pieces_.push_back(
      {first, staging_memory("lockstep::host_blocks", bytes - first,
                             "parallel.offload keeps it on the host instead of the device: use more ranks with a "
                             "parallel.shard, or leave offload out")});
}

void HostBlocks::follow(const ExecSpace& space) {
  const StreamEvent event(space);
  wait_for(reads_, event);
  wait_for(writes_, event);
}

void HostBlocks::start_read(std::size_t slot, std::uint64_t place) {
  wait_for(reads_, StreamEvent(writes_));
  start_copy_from_host(reads_, at(place), tensor(slot));
  read_[slot].emplace(reads_);
}

void HostBlocks::start_write(std::size_t slot, std::uint64_t place) {
  start_copy_to_host(writes_, tensor(slot), at(place));
}

void HostBlocks::start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) {
  writes_.fence("lockstep::host_blocks");
  read(place, to, bytes);
}

void HostBlocks::settle() {
  writes_.fence("lockstep::host_blocks");
  reads_.fence("lockstep::host_blocks");
}

void HostBlocks::read(std::uint64_t place, std::byte* to, std::size_t bytes) { std::memcpy(to, at(place), bytes); }

void HostBlocks::write(std::uint64_t place, const std::byte* from, std::size_t bytes) {
  std::memcpy(at(place), from, bytes);
}

/// Returns the address of a place. Each block, and each range read or written, lies within one piece.
std::byte* HostBlocks::at(std::uint64_t place) const {
  const auto after = std::ranges::upper_bound(pieces_, place, {}, &Piece::first);
  assert(after != pieces_.begin());
  const Piece& piece = *std::prev(after);
  assert(place - piece.first < piece.bytes.size());
  return piece.bytes.data() + (place - piece.first);
}

}  // namespace lockstep
