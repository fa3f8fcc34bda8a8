// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/node_memory.hpp"

#include <cstring>
#include <new>
#include <vector>

#include "comm/mpi_handle.hpp"
#include "core/memory_plan.hpp"

namespace lockstep {
namespace {

/// Flags of two ranks must not share a cache line (of 128 bytes with its neighbour, which CPUs fetch too).
constexpr std::size_t header_bytes = 128;
static_assert(sizeof(NodeMemory::Flags) <= header_bytes && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

struct NodeMemory::Window {
  Communicator ranks;
  MPI_Win window = MPI_WIN_NULL;
  std::vector<std::byte*> parts;  // of each rank: its flags, and then its memory

  explicit Window(const Communicator& node) : ranks(node.duplicate()) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    if (window != MPI_WIN_NULL && may_release()) MPI_Win_free(&window);
  }
};

std::optional<NodeMemory> NodeMemory::make(const Communicator& node, std::size_t bytes) {
  const auto made = std::make_shared<Window>(node);
  const MPI_Comm comm = made->ranks.mpi().comm;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  void* own = nullptr;
  const auto size = static_cast<MPI_Aint>(header_bytes + align_up(bytes));
  const int result = MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, comm, &own, &made->window);
  if (result != MPI_SUCCESS) made->window = MPI_WIN_NULL;
  if (made->ranks.max(result == MPI_SUCCESS ? 0 : 1) != 0) return std::nullopt;

  // Every rank touches its own part first, so that it lies in the memory nearest to it.
  std::memset(own, 0, static_cast<std::size_t>(size));
  new (own) Flags{};
  for (int rank = 0; rank < node.size(); ++rank) {
    MPI_Aint there = 0;
    int unit = 0;
    void* base = nullptr;
    MPI_Win_shared_query(made->window, rank, &there, &unit, &base);
    made->parts.push_back(static_cast<std::byte*>(base));
  }
  made->ranks.barrier();
  return NodeMemory(made);
}

const Communicator& NodeMemory::ranks() const { return window_->ranks; }

std::byte* NodeMemory::part(int rank) const { return window_->parts[static_cast<std::size_t>(rank)] + header_bytes; }

NodeMemory::Flags& NodeMemory::flags(int rank) const {
  return *std::launder(reinterpret_cast<Flags*>(window_->parts[static_cast<std::size_t>(rank)]));
}

}  // namespace lockstep
