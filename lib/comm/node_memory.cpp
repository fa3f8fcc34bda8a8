// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/node_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

namespace lockstep {
namespace {

/// Flags of two ranks must not share a cache line, nor a pair of lines (128 bytes), which CPUs fetch together.
constexpr std::size_t header_bytes = 128;
static_assert(sizeof(NodeMemory::Flags) <= header_bytes && std::atomic<std::uint64_t>::is_always_lock_free);
/// Parts begin at page boundaries, so that each can be placed in the memory nearest to its rank.
constexpr std::size_t page_bytes = 4096;

/// A POSIX shared-memory file, open on this rank.
class SharedFile {
 public:
  /// Creates a file of `bytes` bytes under a new name and returns the name; empty on failure.
  static std::string create(std::size_t bytes) {
    for (int number = 0; number < 1000; ++number) {
      const std::string name = fmt::format("/lockstep-{}-{}", ::getpid(), number);
      const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
      if (file < 0 && errno == EEXIST) continue;
      if (file < 0) break;
      const bool long_enough = ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
      ::close(file);
      if (long_enough) return name;
      ::shm_unlink(name.c_str());
      break;
    }
    return "";
  }

  explicit SharedFile(const std::string& name) : file_(name.empty() ? -1 : ::shm_open(name.c_str(), O_RDWR, 0600)) {}
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() {
    if (file_ >= 0) ::close(file_);
  }

  bool is_open() const { return file_ >= 0; }
  /// Allocates pages of a range now, near this rank: a write without free memory would later end the process by SIGBUS.
  bool reserve(std::size_t first, std::size_t bytes) const {
    int failed = EINTR;  // signals can interrupt the call
    while (file_ >= 0 && failed == EINTR)
      failed = ::posix_fallocate(file_, static_cast<off_t>(first), static_cast<off_t>(bytes));
    return failed == 0;
  }
  void* map(std::size_t bytes) const {
    return file_ >= 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0) : MAP_FAILED;
  }

 private:
  int file_;
};

/// A mapping of memory shared by the ranks of a node; each rank unmaps its own.
struct Mapping {
  std::size_t bytes;
  void* base = MAP_FAILED;

  explicit Mapping(std::size_t all_bytes) : bytes(all_bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base != MAP_FAILED) ::munmap(base, bytes);
  }
};

/// Maps `bytes` of shared memory on all ranks; this rank allocates [first, first + own). Null on all ranks if that
/// fails on any. Collective.
std::shared_ptr<std::byte[]> map_together(const Communicator& ranks, std::size_t bytes, std::size_t first,
                                          std::size_t own) {
  const auto made = std::make_shared<Mapping>(bytes);
  std::string name = ranks.is_root() ? SharedFile::create(bytes) : "";
  ranks.broadcast(name);
  const SharedFile file(name);
  const bool opened = ranks.every_rank(file.is_open());
  // Unlinked as soon as all have opened it or given up, so that nothing is left behind however this process ends.
  if (ranks.is_root() && !name.empty()) ::shm_unlink(name.c_str());
  const bool taken = ranks.every_rank(opened && (own == 0 || file.reserve(first, own)));
  if (taken) made->base = file.map(bytes);
  if (!ranks.every_rank(taken && made->base != MAP_FAILED)) return nullptr;
  return {made, static_cast<std::byte*>(made->base)};
}

}  // namespace

struct NodeMemory::Window {
  Communicator ranks;
  std::size_t stride;  // bytes from one part to the next: flags, then memory
  std::shared_ptr<std::byte[]> memory;

  Window(const Communicator& node, std::size_t bytes)
      : ranks(node.duplicate()), stride((header_bytes + bytes + page_bytes - 1) / page_bytes * page_bytes) {
    const auto size = static_cast<std::size_t>(ranks.size()), rank = static_cast<std::size_t>(ranks.rank());
    memory = map_together(ranks, stride * size, stride * rank, stride);
  }

  std::byte* part(int rank) const { return memory.get() + stride * static_cast<std::size_t>(rank); }
};

std::optional<NodeMemory> NodeMemory::make(const Communicator& node, std::size_t bytes) {
  const auto made = std::make_shared<Window>(node, bytes);
  if (!made->memory) return std::nullopt;
  new (made->part(made->ranks.rank())) Flags{};
  made->ranks.barrier();
  return NodeMemory(made);
}

std::shared_ptr<std::byte[]> node_block(const Communicator& node, std::size_t bytes) {
  return map_together(node, bytes, 0, node.is_root() ? bytes : 0);
}

const Communicator& NodeMemory::ranks() const { return window_->ranks; }

std::byte* NodeMemory::part(int rank) const { return window_->part(rank) + header_bytes; }

NodeMemory::Flags& NodeMemory::flags(int rank) const {
  return *std::launder(reinterpret_cast<Flags*>(window_->part(rank)));
}

}  // namespace lockstep
