// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "comm/communicator.hpp"

namespace lockstep {

/// Shared memory of the ranks of a node, in which each rank owns a part and can access every part. It is POSIX shared
/// memory rather than an MPI window: pages are allocated by `make`, so that a shortage is an error there and not a
/// signal later, and each rank releases it without the others.
class NodeMemory {
 public:
  /// Allocates `bytes` for each rank. Empty, on all ranks of `node`, if that much cannot be shared (a container's small
  /// /dev/shm). The ranks must be able to share memory. Collective.
  static std::optional<NodeMemory> make(const Communicator& node, std::size_t bytes);

  const Communicator& ranks() const;
  /// The part of a rank, zeroed at first and aligned for any type and vector.
  std::byte* part(int rank) const;
  /// Counters of one rank, which the other ranks poll.
  struct Flags {
    static constexpr int count = 4;
    std::atomic<std::uint64_t> stage[count];
  };
  Flags& flags(int rank) const;

 private:
  struct Window;
  explicit NodeMemory(std::shared_ptr<const Window> window) : window_(std::move(window)) {}

  std::shared_ptr<const Window> window_;
};

/// Allocates zeroed memory that all ranks of a node see, charged to rank 0 and released with its last user. Null, on
/// all ranks, if that much cannot be shared. Collective.
std::shared_ptr<std::byte[]> node_block(const Communicator& node, std::size_t bytes);

}  // namespace lockstep
