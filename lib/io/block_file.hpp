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
/// writes the one before it and reads those behind it, up to three at a time in all. A pass works on the first blocks
/// first, which are read when the pass before it ends; from a `turn` on, the last blocks come first. What fails throws
/// io_error in all calls from there on, on the thread that calls.
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
  /// What is done with a block, where its bytes are; what it leaves there is kept if the pass `changes`.
  using Work = std::function<void(std::size_t block, std::byte* bytes)>;

  // A pass, block by block:
  void begin(Pass kind);
  bool is_passing() const { return left_ > 0; }
  /// The block that is next, and the last one of those that are left.
  std::size_t next() const { return block_in_[turn_ % slots_]; }
  std::size_t last_left() const;
  /// Whether the next one is in memory.
  bool is_here();
  /// Waits for it, and does `work`.
  void work(const Work& work);
  /// From here on, those that are not read yet come in falling order.
  void turn() { has_turned_ = true; }
  /// A pass over all blocks, in rising order.
  void pass(Pass kind, const Work& work);

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
  void start_read(std::size_t slot, Half half, std::size_t block);
  void wait_for(std::uint64_t requests);
  void wait_for_all();

  std::size_t block_bytes_, blocks_, slots_;
  std::uint64_t bytes_;  ///< of a version
  ScratchFile file_;
  ScratchMemory memory_;  ///< of the slots
  Half present_ = Half::first, held_ = Half::second;
  std::uint64_t turn_ = 0;  ///< blocks that passes have worked on; that of turn t is in slot t modulo slots
  bool is_ahead_ = false;   ///< whether the first blocks of the next pass are read, or being read
  std::array<std::size_t, most_in_memory> block_in_{};   ///< a slot, when it is read
  std::array<std::uint64_t, most_in_memory> read_by_{};  ///< requests after which a slot has its block
  // Of the pass:
  Half to_ = Half::first;  ///< where its blocks are written
  bool changes_ = false, has_turned_ = false;
  std::size_t left_ = 0;                     ///< blocks that were not worked on
  std::size_t unread_ = 0, unread_end_ = 0;  ///< whose reads were not started

  std::mutex copying_;
  ScratchMemory copied_;  ///< on the way of read and write

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::array<Request, 2 * most_in_memory> requests_;  ///< a ring
  std::uint64_t started_ = 0, done_ = 0;              ///< requests
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace lockstep
