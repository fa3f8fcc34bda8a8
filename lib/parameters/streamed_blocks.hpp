// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/execution.hpp"

namespace lockstep {

/// Storage for blocks of bytes, with a few slots in device memory through which they pass. Started operations run
/// concurrently with the step's work. A read sees all writes started before it, and does not overwrite its slot before
/// they have left it. After a failure, every call that can fail throws io_error on the calling thread.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  virtual std::byte* memory(std::size_t slot) const = 0;
  /// Makes the store at least `bytes` long; new bytes are zero. Throws if there is no room.
  virtual void reserve(std::uint64_t bytes) = 0;

  /// Orders operations started from now on after the work submitted to `space` so far.
  virtual void follow(const ExecSpace& space) = 0;
  /// Starts reading the bytes from `place` on into a slot, or writing a slot to `place`.
  virtual void start_read(std::size_t slot, std::uint64_t place) = 0;
  virtual void start_write(std::size_t slot, std::uint64_t place) = 0;
  /// True if the last read into the slot is done.
  virtual bool has_read(std::size_t slot) = 0;
  /// Orders work submitted to `space` from now on after the last read into the slot.
  virtual void await_read(const ExecSpace& space, std::size_t slot) = 0;
  /// Starts copying bytes of any place and length to other host memory, which belongs to the store until `has_fetched`.
  /// Sees all writes started before.
  virtual void start_fetch(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  /// True if all started fetches are done.
  virtual bool has_fetched() = 0;
  /// Waits until everything started is done or has failed.
  virtual void settle() = 0;

  // Synchronous access to bytes of any place and length, from any thread, but not while a started operation uses them.
  virtual void read(std::uint64_t place, std::byte* to, std::size_t bytes) = 0;
  virtual void write(std::uint64_t place, const std::byte* from, std::size_t bytes) = 0;
};

/// Blocks of bytes that pass through device memory one after the other: while one is worked on, the one before it
/// is written and the next ones are read, with at most three in memory. A pass works on blocks in rising order; the
/// first ones are already read at the end of the pass before. After a call of `turn`, the remaining blocks come in
/// falling order.
class StreamedBlocks {
 public:
  static constexpr std::size_t most_in_memory = 3;
  static std::size_t slots(std::size_t blocks) { return blocks < most_in_memory ? blocks : most_in_memory; }

  /// Creates `blocks` (at least one) blocks of `block_bytes`, zero at first. `store` must be empty and have
  /// slots(blocks) slots. Throws what the store throws.
  StreamedBlocks(std::unique_ptr<BlockStore> store, std::size_t block_bytes, std::size_t blocks);

  enum class Pass { reads, changes };
  /// Work on one block, whose bytes are in device memory. Changes to the bytes are kept if the pass is of kind
  /// `changes`.
  using Work = std::function<void(std::size_t block, std::byte* bytes)>;

  // One pass, block by block:
  void begin(Pass kind);
  bool is_passing() const { return left_ > 0; }
  /// `next`: the next block; `last_left`: the highest block that is left in this pass.
  std::size_t next() const { return block_in_[turn_ % slots_]; }
  std::size_t last_left() const;
  /// True if the next block has arrived in memory.
  bool is_here() { return store_->has_read(turn_ % slots_); }
  /// Runs `work` on the next block; kernels that it submits to `space` run after the block has arrived.
  void work(const ExecSpace& space, const Work& work);
  /// From now on, blocks whose reads have not been started come in falling order.
  void turn() { has_turned_ = true; }
  /// Runs a whole pass over all blocks, in rising order.
  void pass(const ExecSpace& space, Pass kind, const Work& work);

  /// Starts copying current bytes, of any place and length within a block, to other host memory (see BlockStore).
  /// During a pass that changes blocks, those already worked on give their new bytes.
  void start_fetch(std::uint64_t offset, std::byte* to, std::size_t bytes);
  bool has_fetched() { return store_->has_fetched(); }

  /// Reserves the room that `hold` needs.
  void make_room_to_hold() { store_->reserve(2 * bytes_); }
  /// Keeps the current bytes readable as Version::held until the next call: passes that change blocks write elsewhere.
  /// To be called between passes.
  void hold();

  enum class Version { present, held };
  // Access to bytes of any place and length within a block, from any thread; for `present` only between passes.
  void read(Version version, std::uint64_t offset, std::byte* to, std::size_t bytes);
  void write(std::uint64_t offset, const std::byte* from, std::size_t bytes);

 private:
  /// Half of the store that holds one version of the bytes.
  enum class Half : std::uint64_t { first, second };

  std::uint64_t place(Half half, std::uint64_t offset) const {
    return static_cast<std::uint64_t>(half) * bytes_ + offset;
  }
  void start_read(std::size_t slot, Half half, std::size_t block);
  bool is_left(std::size_t block) const;

  std::unique_ptr<BlockStore> store_;
  std::size_t block_bytes_, blocks_, slots_;
  std::uint64_t bytes_;  ///< size of one version
  Half present_ = Half::first, held_ = Half::second;
  /// Number of blocks that passes have worked on; the block of turn t is in slot t modulo `slots_`.
  std::uint64_t turn_ = 0;
  bool is_ahead_ = false;                               ///< the reads of the next pass's first blocks have been started
  std::array<std::size_t, most_in_memory> block_in_{};  ///< the block last read into each slot
  // The current pass, or the last one:
  Half to_ = Half::first;  ///< where changed blocks are written
  bool changes_ = false, has_turned_ = false;
  std::size_t left_ = 0;                     ///< number of blocks still to be worked on
  std::size_t unread_ = 0, unread_end_ = 0;  ///< range of blocks whose reads have not been started
};

}  // namespace lockstep
