// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/neighbour_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <span>
#include <utility>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/copy_file.hpp"
#include "comm/spin_backoff.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t block_bytes = CheckpointTransfer::block_bytes;

/// Returns the ranks of each node, in rising order.
std::vector<std::vector<int>> ranks_of_nodes(const Topology& ranks) {
  std::vector<std::vector<int>> of_nodes(static_cast<std::size_t>(ranks.nodes));
  for (std::size_t rank = 0; rank < ranks.node_of.size(); ++rank)
    of_nodes[static_cast<std::size_t>(ranks.node_of[rank])].push_back(static_cast<int>(rank));
  return of_nodes;
}

/// Returns the rank of the next node that keeps the copies of `rank`.
int keeper_of(int rank, const Topology& ranks, const std::vector<std::vector<int>>& of_nodes) {
  const int node = ranks.node_of[static_cast<std::size_t>(rank)];
  const std::vector<int>& here = of_nodes[static_cast<std::size_t>(node)];
  const std::vector<int>& there = of_nodes[static_cast<std::size_t>((node + 1) % ranks.nodes)];
  const auto place = static_cast<std::size_t>(std::ranges::find(here, rank) - here.begin());
  return there[place % there.size()];
}

/// A file that gets its name when it is whole.
class PartFile {
 public:
  explicit PartFile(std::filesystem::path path)
      : path_(std::move(path)), file_(MemoryFolder::unfinished(path_), RawFile::Access::create) {}
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() {
    std::error_code ignored;
    std::filesystem::remove(MemoryFolder::unfinished(path_), ignored);  // there is none if it was renamed
  }

  void append(Bytes bytes) {
    file_.write(size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void commit() {
    file_.close();
    std::filesystem::rename(MemoryFolder::unfinished(path_), path_);
  }

 private:
  std::filesystem::path path_;
  RawFile file_;
  std::uint64_t size_ = 0;
};

/// This rank's copy, on its way to its own node's memory and to the next node: first its size, and then blocks, of
/// which only the last may be shorter than the others.
class Sent {
 public:
  /// `room`: of block_bytes.
  explicit Sent(std::byte* room) : block_(room) {}

  /// Adds so many bytes, which `read(first, to)` then reads in order, from byte `first` on.
  using Read = std::function<void(std::size_t first, std::span<std::byte> to)>;
  void add(std::size_t bytes, Read read) {
    pieces_.push_back({bytes, std::move(read)});
    size += bytes;
  }
  /// Adds the hash of everything before; call last.
  void add_hash() {
    add(sizeof(std::uint64_t), [this](std::size_t first, std::span<std::byte> to) {
      const std::uint64_t value = hash_.value();
      std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&value) + first, to.size());
    });
  }

  /// Returns the next block, which is valid until the next call; empty after the last one.
  Bytes take_block() {
    std::size_t filled = 0;
    while (filled < block_bytes && piece_ < pieces_.size()) {
      const Piece& piece = pieces_[piece_];
      const std::span<std::byte> now(block_ + filled, std::min(piece.bytes - taken_, block_bytes - filled));
      piece.read(taken_, now);
      if (piece_ + 1 < pieces_.size()) hash_.add(now.data(), now.size());
      filled += now.size();
      taken_ += now.size();
      if (taken_ < piece.bytes) continue;
      taken_ = 0;
      ++piece_;
    }
    return {block_, filled};
  }

  std::uint64_t size = 0;  ///< of the file
  std::optional<PartFile> file;

 private:
  struct Piece {
    std::size_t bytes;
    Read read;
  };

  std::vector<Piece> pieces_;
  std::size_t piece_ = 0, taken_ = 0;  ///< index of the next piece; bytes of it that are taken
  RunningHash hash_;
  std::byte* block_;
};

/// The copies of other ranks, which arrive one after the other.
struct Received {
  std::size_t from = 0;     ///< index in kept_for_ of the rank whose copy arrives
  std::uint64_t size = 0;   ///< of the file
  std::uint64_t there = 0;  ///< bytes of it that have arrived
  enum class Stage { begins, knows_size, arrives } stage = Stage::begins;
  std::optional<PartFile> file;  ///< none if it cannot be written
};

}  // namespace

NeighbourCopies::NeighbourCopies(const Topology& ranks, MemoryFolder folder, std::string run,
                                 CheckpointTransfer& transfer)
    : ranks_(ranks),
      folder_(std::move(folder)),
      run_(std::move(run)),
      transfer_(transfer),
      sent_block_(new std::byte[block_bytes]) {
  std::random_device random;
  start_ = fmt::format("{:08x}{:08x}", random(), random());
  ranks_.all.broadcast(start_);
  if (ranks_.one_node()) return;
  transport_ = make_transport(ranks_.all);
  received_block_.reset(new std::byte[block_bytes]);
  const auto of_nodes = ranks_of_nodes(ranks_);
  next_ = keeper_of(ranks_.all.rank(), ranks_, of_nodes);
  for (int rank = 0; rank < ranks_.all.size(); ++rank)
    if (keeper_of(rank, ranks_, of_nodes) == ranks_.all.rank()) kept_for_.push_back(rank);
}

void NeighbourCopies::write(std::int64_t step, std::map<std::string, std::string> texts, bool at_once,
                            std::function<void()> before_commit) {
  wait();
  settle_last();
  last_ = step;
  if (at_once) transfer_.copy(ExecSpace());
  const bool in_thread = !transport_ || mpi_serves_threads();
  writing_.start(
      in_thread,
      [this, at_once] {
        if (!at_once) transfer_.copy(ExecSpace());
      },
      [this, step, texts = std::move(texts), before_commit = std::move(before_commit)] {
        try {
          before_commit();
        } catch (const std::exception& error) {
          note_failure(error);
        }
        exchange(step, texts);
      });
}

/// If all ranks have the last copies, these replace the ones before; else the last ones are removed.
void NeighbourCopies::settle_last() {
  if (!last_) return;
  const bool failed = ranks_.all.any_rank(!failure_.empty());
  if (failed) {
    const std::vector<std::string> failures = ranks_.all.gather_to_root(failure_);
    const auto first = std::ranges::find_if(failures, [](const std::string& each) { return !each.empty(); });
    if (first != failures.end())
      warn(
          "step {} was not copied to the memory of nodes: rank {}: {}; the run continues, and tries again at the next "
          "copy",
          *last_, first - failures.begin(), *first);
    failure_.clear();
  }
  const std::optional<std::int64_t> old = failed ? last_ : before_last_;
  if (!failed) before_last_ = last_;
  last_.reset();
  if (!old) return;
  const int node = ranks_.node_of[static_cast<std::size_t>(ranks_.all.rank())];
  std::error_code ignored;
  std::filesystem::remove(folder_.file(node, ranks_.all.rank(), *old), ignored);
  for (const int owner : kept_for_) std::filesystem::remove(folder_.file(node, owner, *old), ignored);
}

/// Writes this rank's copy, sends it, and receives those of others. Never throws, because other ranks wait for this
/// rank's messages.
void NeighbourCopies::exchange(std::int64_t step, const std::map<std::string, std::string>& texts) {
  const int rank = ranks_.all.rank(), node = ranks_.node_of[static_cast<std::size_t>(rank)];
  const auto guarded = [this](auto work) {
    try {
      work();
    } catch (const std::exception& error) {
      note_failure(error);
    }
  };
  std::string head;
  guarded([&] {
    head = copy_head({.run = run_, .start = start_, .step = step, .owner = rank, .owners = ranks_.all.size()}, texts,
                     transfer_.numbers());
  });
  Sent sent(sent_block_.get());
  sent.add(head.size(), [&head](std::size_t first, std::span<std::byte> to) {
    std::memcpy(to.data(), head.data() + first, to.size());
  });
  for (std::size_t of = 0; of < transfer_.numbers().size(); ++of)
    sent.add(transfer_.numbers()[of].values.bytes(), [this, of, &guarded](std::size_t first, std::span<std::byte> to) {
      guarded([&] { transfer_.read_copy(of, first, to); });
    });
  sent.add_hash();
  guarded([&] { sent.file.emplace(folder_.file(node, rank, step)); });
  if (transport_) transport_->send(next_, &sent.size, sizeof sent.size);
  const auto go_on_sending = [&] {
    if (transport_ && !transport_->sent()) return false;
    const Bytes block = sent.take_block();
    if (block.empty()) return true;
    if (transport_) transport_->send(next_, block.data(), block.size());
    if (sent.file && failure_.empty()) guarded([&] { sent.file->append(block); });
    return false;
  };

  Received received;
  const auto go_on_receiving = [&] {
    using Stage = Received::Stage;
    while (received.from < kept_for_.size()) {
      const int owner = kept_for_[received.from];
      if (received.stage == Stage::begins) {
        transport_->receive(owner, &received.size, sizeof received.size);
        received.stage = Stage::knows_size;
      }
      if (!transport_->received()) return false;
      if (received.stage == Stage::knows_size) {
        received.there = 0;
        received.file.reset();
        guarded([&] { received.file.emplace(folder_.file(node, owner, step)); });
        received.stage = Stage::arrives;
      } else {
        const auto bytes = std::min<std::uint64_t>(block_bytes, received.size - received.there);
        if (received.file && failure_.empty())
          guarded([&] { received.file->append(Bytes(received_block_.get(), bytes)); });
        received.there += bytes;
      }
      if (received.there < received.size) {
        transport_->receive(owner, received_block_.get(),
                            std::min<std::uint64_t>(block_bytes, received.size - received.there));
        return false;
      }
      if (received.file && failure_.empty()) guarded([&] { received.file->commit(); });
      ++received.from;
      received.stage = Stage::begins;
    }
    return true;
  };
  wait_until([&, is_sent = false]() mutable {
    is_sent = is_sent || go_on_sending();
    return go_on_receiving() && is_sent;
  });
  if (sent.file && failure_.empty()) guarded([&] { sent.file->commit(); });
}

void NeighbourCopies::note_failure(const std::exception& error) {
  if (failure_.empty()) failure_ = as_error(error).what();
}

void NeighbourCopies::wait() {
  const WaitsForRanks waits;
  writing_.wait([] {});
}

void NeighbourCopies::remove() {
  wait();
  ranks_.all.barrier();
  if (ranks_.node.is_root()) folder_.clear();
  last_.reset();
  before_last_.reset();
  failure_.clear();
}

}  // namespace lockstep
