// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "io/raw_file.hpp"
#include "parameters/streamed_blocks.hpp"

namespace lockstep {

/// A temporary file used instead of memory. It has no name, so nothing is left when the process ends, however it ends.
/// It bypasses the page cache (O_DIRECT), which would use the memory to be saved: offsets, lengths and memory addresses
/// must be multiples of `alignment`.
class ScratchFile {
 public:
  static constexpr std::size_t alignment = 4096;

  /// Creates an empty file. Throws missing_file if there is no such folder, io_error if the disk is full, and
  /// cannot_create if no file can be made there, the file system has no O_DIRECT, or the folder is in memory (tmpfs).
  explicit ScratchFile(const std::filesystem::path& folder);

  const std::string& name() const { return file_.name(); }
  /// Makes the file at least `bytes` long. New bytes are zero and their disk space is allocated, so that later writes
  /// do not find the disk full. Throws io_error if there is no room.
  void reserve(std::uint64_t bytes);
  void read(std::uint64_t offset, void* to, std::size_t bytes) const { file_.read(offset, to, bytes); }
  void write(std::uint64_t offset, const void* from, std::size_t bytes) { file_.write(offset, from, bytes); }

 private:
  RawFile file_;
  std::uint64_t bytes_ = 0;
};

/// Memory suitable for transfers to and from a ScratchFile.
using ScratchMemory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;
ScratchMemory scratch_memory(std::size_t bytes);

/// A block store in a scratch file, for kernels that work in host memory. One thread executes the started reads and
/// writes in order.
class BlockFile final : public BlockStore {
 public:
  /// Size of the bounce buffer for fetches and unaligned accesses: one huge page (see scratch_memory).
  static constexpr std::size_t copied_bytes = std::size_t{2} << 20;

  /// Creates `slots` slots of `block_bytes`, a multiple of ScratchFile::alignment. Throws what ScratchFile throws.
  BlockFile(const std::filesystem::path& folder, std::size_t block_bytes, std::size_t slots);
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;
  ~BlockFile() override;

  std::byte* memory(std::size_t slot) const override { return memory_.get() + slot * block_bytes_; }
  void reserve(std::uint64_t bytes) override { file_.reserve(bytes); }
  void follow(const ExecSpace& space) override { space.fence("lockstep::block_file"); }
  void start_read(std::size_t slot, std::uint64_t place) override;
  void start_write(std::size_t slot, std::uint64_t place) override { start(Request::Kind::write, slot, place); }
  bool has_read(std::size_t slot) override { return has_done(read_by_[slot]); }
  void await_read(const ExecSpace&, std::size_t slot) override { wait_for(read_by_[slot]); }
  void start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) override;
  bool has_fetched() override { return has_done(fetched_by_); }
  void settle() override;
  void read(std::uint64_t place, std::byte* to, std::size_t bytes) override;
  void write(std::uint64_t place, const std::byte* from, std::size_t bytes) override;

 private:
  struct Request {
    enum class Kind { read, write, fetch } kind = Kind::read;
    std::uint64_t place = 0;
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };

  void serve();
  void serve(const Request& request);
  void start(const Request& request);
  void start(Request::Kind kind, std::size_t slot, std::uint64_t place) {
    start({kind, place, memory(slot), block_bytes_});
  }
  bool has_done(std::uint64_t requests);
  void wait_for(std::uint64_t requests);
  void copy_from_file(std::uint64_t place, std::byte* to, std::size_t bytes);

  std::size_t block_bytes_;
  ScratchFile file_;
  ScratchMemory memory_;                ///< memory of the slots
  std::vector<std::uint64_t> read_by_;  ///< number of requests after which each slot's last read is done
  std::uint64_t fetched_by_ = 0;        ///< number of requests after which all fetches are done

  // Protects `copied_`.
  std::mutex copying_;
  ScratchMemory copied_;  ///< bounce buffer of read, write and fetch

  std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  std::vector<Request> requests_;         ///< ring buffer, enlarged on demand
  std::uint64_t started_ = 0, done_ = 0;  ///< number of requests
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;  ///< last member: the thread uses all others
};

}  // namespace lockstep
