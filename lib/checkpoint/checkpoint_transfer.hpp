// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/surviving_ranks.hpp"
#include "comm/transport.hpp"
#include "core/execution.hpp"
#include "core/tensor.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// Numbers that ranks hold, on their way to a file that rank 0 writes, or from one that it reads: block by block, of
/// which rank 0 has a few at a time. In a turn, rank 0 asks other ranks for what they hold of a block, or sends it to
/// them; they answer (`serve`) until rank 0 ends the turn, which it does whatever happens (Turn). So nobody is left
/// waiting if rank 0 fails. The others cannot fail for lack of memory in a turn, because they have it before
/// (make_room). If rank 0 holds everything, nothing travels.
class CheckpointTransfer {
 public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  /// The values of `numbers` must stay where they are. Collective.
  CheckpointTransfer(const Communicator& ranks, std::vector<ShardedState> numbers);

  const std::vector<ShardedState>& states() const { return states_; }
  std::size_t bytes() const;  ///< of all ranks' numbers
  /// Whether threads other than the step's may have turns, and serve in them.
  bool may_work_in_background() const { return !transport_ || mpi_serves_threads(); }

  /// Allocates room for a copy of what this rank holds, for the lifetime of this object.
  void make_room();
  /// Copies what this rank holds. From then on the copy is given, so the numbers may change. (The file of offloaded
  /// numbers keeps this version itself: StreamedBlocks::hold.)
  void copy(const ExecSpace& space);
  /// From now on, the numbers themselves are given again.
  void forget_copy() { is_copied_ = false; }

  /// A turn of rank 0, which ends with this object.
  class Turn {
   public:
    explicit Turn(CheckpointTransfer& transfer) : transfer_(&transfer) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      try {
        end();
      } catch (const RankLost&) {  // the other ranks have lost it too, and wait for no end
      }
    }
    void end() {
      if (CheckpointTransfer* transfer = std::exchange(transfer_, nullptr)) transfer->end_turn();
    }

   private:
    CheckpointTransfer* transfer_;
  };

  /// A range of states()[of], in elements.
  struct Block {
    std::size_t of = 0;
    std::int64_t first = 0, count = 0;
  };
  /// Gives all blocks of all ranks' numbers to `take`, in order, with `bytes` on the host; the numbers in gaps between
  /// parameters are undefined. For rank 0 in a turn. Passes on what `take` throws.
  void gather(const std::function<void(const Block& block, const std::byte* bytes)>& take);
  /// Asks `fill` for all blocks, in order, and puts them where they belong. For rank 0 in a turn.
  void scatter(const std::function<void(const Block& block, std::byte* bytes)>& fill);
  /// Answers what rank 0 asks, until it ends its turn. For the other ranks. If this rank's file of offloaded numbers
  /// fails, rank 0 is told, and the error is thrown at the end.
  void serve();

 private:
  /// A message of rank 0: what it wants of a block.
  struct Request {
    enum class Kind : std::int64_t { give, take, end } kind = Kind::end;
    std::int64_t of = 0, first = 0;
  };
  /// A block of which another rank holds a part.
  struct RemoteBlock {
    Block block;
    int rank = 0;
  };

  /// A range of a buffer that a rank holds, and its place in what the rank holds of the buffer.
  struct Piece {
    std::int64_t first = 0, count = 0, at = 0;
  };

  /// A rank that holds a part of some numbers.
  struct Holder {
    int rank = 0;
    std::vector<Piece> pieces;
  };

  void note_holders(const Communicator& ranks);
  Block block_at(std::size_t of, std::int64_t first) const;
  void for_each_block(const std::function<void(const Block&)>& visit) const;
  /// Returns what the rank holds of a block.
  std::vector<Piece> pieces_of(const Block& block, int rank) const;
  static std::vector<Piece> pieces_of(const Block& block, const Holder& holder);
  std::vector<RemoteBlock> remote_blocks() const;
  std::size_t element_bytes(const Block& block) const { return size_of(states_[block.of].values.dtype); }
  std::size_t bytes_of(const Block& block, const std::vector<Piece>& pieces) const;

  /// Returns the block in host memory; null if it is not there in one piece.
  const std::byte* whole_block(const Block& block) const;
  void read(const Block& block, const Piece& piece, std::byte* to) const;
  void write(const Block& block, const Piece& piece, const std::byte* from) const;

  void send(int rank, const void* data, std::size_t bytes);
  void receive(int rank, void* data, std::size_t bytes);
  void ask(const RemoteBlock& block);
  void end_turn();

  int rank_;
  std::vector<ShardedState> states_;
  std::vector<std::vector<Holder>> holders_;  ///< by number and rising rank; ranks other than 0 know only themselves
  std::unique_ptr<Transport> transport_;      ///< null: rank 0 holds everything
  StagingMemory room_;
  std::vector<Tensor> given_;  ///< copies, in `room_`
  bool is_copied_ = false;
  // For messages. The system gives no memory for pages that no turn has used yet.
  std::unique_ptr<std::byte[]> block_, arriving_, arrived_;
  ExecSpace space_;
};

}  // namespace lockstep
