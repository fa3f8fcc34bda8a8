// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "comm/communicator.hpp"

namespace lockstep {

/// Memory of which each rank of a node owns a part, and all can read and write every part. It is POSIX shared memory
/// and no MPI window: taken page by page when it is made, so that too little of it is an error of `make` and not a
/// signal later, and released by each rank for itself.
class NodeMemory {
 public:
  /// None where the ranks cannot share that much (a container's small /dev/shm); the same
  /// answer on all ranks of `node`, which must be able to share memory. Collective.
  static std::optional<NodeMemory> make(const Communicator& node, std::size_t bytes);

  const Communicator& ranks() const;
  /// The part of a rank, zeroed, at an address that suits any type and vector.
  std::byte* part(int rank) const;
  /// One rank's counters, which the others watch.
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

/// Memory that all ranks of a node see, zeroed, released when the last of them lets it go; rank 0 takes it. Null, on
/// all ranks, where there is not that much to share. Collective.
std::shared_ptr<std::byte[]> node_block(const Communicator& node, std::size_t bytes);

}  // namespace lockstep
