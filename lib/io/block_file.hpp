// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "io/scratch_file.hpp"

namespace lockstep {

/// Blocks of bytes in a scratch file, which pass through memory one after the other: while one is worked on, a thread
/// writes the one before it and reads those behind it, up to three at a time in all. The first ones of the next pass
/// are read when a pass ends. What fails throws io_error in all calls from there on, on the thread that calls.
class BlockFile {
 public:
  static constexpr std::size_t most_in_memory = 3;

  /// `blocks` (at least one) of `block_bytes`, a multiple of ScratchFile::alignment; zero at first. Throws what
  /// ScratchFile throws.
  BlockFile(const std::filesystem::path& folder, std::size_t block_bytes, std::size_t blocks);
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;
  ~BlockFile();

  enum class Pass { reads, changes };
  /// Calls `work` for each block, in order, where its bytes are; what it leaves there is kept if the pass `changes`.
  void pass(Pass kind, const std::function<void(std::size_t block, std::byte* bytes)>& work);

  /// Takes room on the disk for `hold`.
  void make_room_to_hold() { file_.reserve(2 * bytes_); }
  /// The bytes of now can be read until the next call, whatever passes change: these write elsewhere. Between passes.
  void hold();

  enum class Version { present, held };
  // Of any place and length, and any thread; of `present`, between passes.
  void read(Version version, std::uint64_t offset, std::byte* to, std::size_t bytes);
  void write(std::uint64_t offset, const std::byte* from, std::size_t bytes);

 private:
  struct Request {
    enum class Kind { read, write } kind = Kind::read;
    std::size_t slot = 0;
    std::uint64_t place = 0;
  };
  /// Half of the file that has a version of the bytes.
  enum class Half : std::uint64_t { first, second };

  std::byte* memory(std::size_t slot) const { return memory_.get() + slot * block_bytes_; }
  std::uint64_t place(Half half, std::uint64_t offset) const {
    return static_cast<std::uint64_t>(half) * bytes_ + offset;
  }
  void serve();
  void start(Request::Kind kind, std::size_t slot, Half half, std::size_t block);
  void wait_for(std::uint64_t requests);
  void wait_for_all();

  std::size_t block_bytes_, blocks_, slots_;
  std::uint64_t bytes_;  ///< of a version
  ScratchFile file_;
  ScratchMemory memory_;  ///< of the slots
  Half present_ = Half::first, held_ = Half::second;
  std::uint64_t turn_ = 0;  ///< blocks that passes have begun with; block t of all passes is in slot t modulo slots
  bool is_ahead_ = false;   ///< whether the first blocks of the next pass are read, or being read
  std::array<std::uint64_t, most_in_memory> read_by_{};  ///< requests after which a slot has its block

  std::mutex copying_;
  ScratchMemory copied_;  ///< on the way of read and write

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::array<Request, 2 * most_in_memory> requests_;  ///< a ring
  std::uint64_t started_ = 0, done_ = 0;
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace lockstep
