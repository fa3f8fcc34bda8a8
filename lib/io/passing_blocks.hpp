// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "io/block_store.hpp"

namespace lockstep {

/// Blocks of bytes, which pass through the step's memory one after the other: while one is worked on, the one before it
/// is written and those after it are read, up to three at a time in all. A pass works on the first blocks first, which
/// are read when the pass before it ends; from a `turn` on, the last blocks come first.
class PassingBlocks {
 public:
  static constexpr std::size_t most_in_memory = 3;
  static std::size_t slots(std::size_t blocks) { return blocks < most_in_memory ? blocks : most_in_memory; }

  /// `blocks` (at least one) of `block_bytes`; zero at first. `store` is empty, and has slots(blocks) slots. Throws
  /// what it throws.
  PassingBlocks(std::unique_ptr<BlockStore> store, std::size_t block_bytes, std::size_t blocks);

  enum class Pass { reads, changes };
  /// What is done with a block, where its bytes are in the step's memory; what it leaves there is kept if the pass
  /// `changes`.
  using Work = std::function<void(std::size_t block, std::byte* bytes)>;

  // A pass, block by block:
  void begin(Pass kind);
  bool is_passing() const { return left_ > 0; }
  /// The block that is next, and the last one of those that are left.
  std::size_t next() const { return block_in_[turn_ % slots_]; }
  std::size_t last_left() const;
  /// Whether the next one is in memory.
  bool is_here() { return store_->has_read(turn_ % slots_); }
  /// Does `work` on it, which gives its kernels to `space`, after its arrival.
  void work(const ExecSpace& space, const Work& work);
  /// From here on, those that are not read yet come in falling order.
  void turn() { has_turned_ = true; }
  /// A pass over all blocks, in rising order.
  void pass(const ExecSpace& space, Pass kind, const Work& work);

  /// Copies the bytes of now, of any place and length within a block, to other memory of the host (BlockStore); in a
  /// pass that changes them, new ones of the blocks that it has worked on.
  void start_fetch(std::uint64_t offset, std::byte* to, std::size_t bytes);
  bool has_fetched() { return store_->has_fetched(); }

  /// Takes room for `hold`.
  void make_room_to_hold() { store_->reserve(2 * bytes_); }
  /// The bytes of now can be read until the next call, whatever passes change: these write elsewhere. Between passes.
  void hold();

  enum class Version { present, held };
  // Of any place and length within a block, and any thread; of `present`, between passes.
  void read(Version version, std::uint64_t offset, std::byte* to, std::size_t bytes);
  void write(std::uint64_t offset, const std::byte* from, std::size_t bytes);

 private:
  /// Half of the store that has a version of the bytes.
  enum class Half : std::uint64_t { first, second };

  std::uint64_t place(Half half, std::uint64_t offset) const {
    return static_cast<std::uint64_t>(half) * bytes_ + offset;
  }
  void start_read(std::size_t slot, Half half, std::size_t block);
  bool is_left(std::size_t block) const;

  std::unique_ptr<BlockStore> store_;
  std::size_t block_bytes_, blocks_, slots_;
  std::uint64_t bytes_;  ///< of a version
  Half present_ = Half::first, held_ = Half::second;
  std::uint64_t turn_ = 0;  ///< blocks that passes have worked on; that of turn t is in slot t modulo slots
  bool is_ahead_ = false;   ///< whether the first blocks of the next pass are read, or being read
  std::array<std::size_t, most_in_memory> block_in_{};  ///< a slot, when it is read
  // The pass that goes on, or the last one:
  Half to_ = Half::first;  ///< where its blocks are written
  bool changes_ = false, has_turned_ = false;
  std::size_t left_ = 0;                     ///< blocks that were not worked on
  std::size_t unread_ = 0, unread_end_ = 0;  ///< whose reads were not started
};

}  // namespace lockstep
