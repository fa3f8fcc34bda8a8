// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/spin_backoff.hpp"
#include "core/memory_plan.hpp"
#include "core/tensor.hpp"

namespace lockstep {
namespace {

/// Returns ranges as pieces that stand one after the other.
template <class Piece>
std::vector<Piece> pieces_of_ranges(const std::vector<ElementRange>& ranges) {
  std::vector<Piece> pieces;
  std::int64_t at = 0;
  for (const ElementRange& range : ranges) {
    pieces.push_back({range.first, range.count, at});
    at += range.count;
  }
  return pieces;
}

/// Encodes what a rank holds: for each of the numbers of which it holds any, their index, the number of ranges, and the
/// ranges.
std::string text_of(const std::vector<ShardedState>& numbers) {
  std::vector<std::int64_t> words;
  for (std::size_t of = 0; of < numbers.size(); ++of) {
    const std::vector<ElementRange>& held = numbers[of].held;
    if (held.empty()) continue;
    words.insert(words.end(), {static_cast<std::int64_t>(of), std::ssize(held)});
    for (const ElementRange& range : held) words.insert(words.end(), {range.first, range.count});
  }
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])};
}

/// Calls note(index, ranges) for each entry of such a text.
template <class Note>
void for_each_held(const std::string& text, const Note& note) {
  std::vector<std::int64_t> words(text.size() / sizeof(std::int64_t));
  if (!words.empty()) std::memcpy(words.data(), text.data(), text.size());
  for (auto word = words.begin(); word != words.end();) {
    const auto of = static_cast<std::size_t>(*word++);
    std::vector<ElementRange> ranges(static_cast<std::size_t>(*word++));
    for (ElementRange& range : ranges) {
      range.first = *word++;
      range.count = *word++;
    }
    note(of, ranges);
  }
}

}  // namespace

CheckpointTransfer::CheckpointTransfer(const Communicator& ranks, std::vector<ShardedState> numbers)
    : rank_(ranks.rank()), states_(std::move(numbers)) {
  const bool holds = std::ranges::any_of(states_, [](const ShardedState& each) { return !each.held.empty(); });
  note_holders(ranks);
  if (ranks.any_rank(holds && !ranks.is_root())) transport_ = make_transport(ranks);
  std::size_t largest = 0;
  for (std::size_t of = 0; of < states_.size(); ++of) {
    const Block block = block_at(of, 0);
    largest = std::max(largest, static_cast<std::size_t>(block.count) * element_bytes(block));
  }
  if (!transport_ && !ranks.is_root()) return;
  const auto room = [&] { return std::make_unique_for_overwrite<std::byte[]>(largest + 1); };
  block_ = room();  // an answer ends with a byte that says whether it failed
  if (!transport_ || !ranks.is_root()) return;
  arriving_ = room();
  arrived_ = room();
}

void CheckpointTransfer::note_holders(const Communicator& ranks) {
  holders_.resize(states_.size());
  const auto note = [&](int rank, const std::string& text) {
    for_each_held(text, [&](std::size_t of, const std::vector<ElementRange>& ranges) {
      holders_[of].push_back({rank, pieces_of_ranges<Piece>(ranges)});
    });
  };
  const std::string own = text_of(states_);
  const std::vector<std::string> texts = ranks.gather_to_root(own);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) note(static_cast<int>(rank), texts[rank]);
  if (!ranks.is_root()) note(rank_, own);
}

std::size_t CheckpointTransfer::bytes() const {
  std::size_t bytes = 0;
  for (const ShardedState& each : states_) bytes += static_cast<std::size_t>(each.size()) * size_of(each.values.dtype);
  return bytes;
}

CheckpointTransfer::Block CheckpointTransfer::block_at(std::size_t of, std::int64_t first) const {
  const auto most = static_cast<std::int64_t>(block_bytes / size_of(states_[of].values.dtype));
  return {of, first, std::min(most, states_[of].size() - first)};
}

void CheckpointTransfer::for_each_block(const std::function<void(const Block&)>& visit) const {
  for (std::size_t of = 0; of < states_.size(); ++of)
    for (std::int64_t first = 0; first < states_[of].size();) {
      const Block block = block_at(of, first);
      visit(block);
      first += block.count;
    }
}

std::vector<CheckpointTransfer::Piece> CheckpointTransfer::pieces_of(const Block& block, int rank) const {
  const std::vector<Holder>& holders = holders_[block.of];
  const auto holder = std::ranges::lower_bound(holders, rank, {}, &Holder::rank);
  if (holder == holders.end() || holder->rank != rank) return {};
  return pieces_of(block, *holder);
}

std::vector<CheckpointTransfer::Piece> CheckpointTransfer::pieces_of(const Block& block, const Holder& holder) {
  const std::vector<Piece>& held = holder.pieces;
  const std::int64_t end = block.first + block.count;
  std::vector<Piece> pieces;
  const auto after = std::ranges::partition_point(
      held, [&](const Piece& piece) { return piece.first + piece.count <= block.first; });
  for (auto piece = after; piece != held.end() && piece->first < end; ++piece) {
    const std::int64_t first = std::max(piece->first, block.first);
    pieces.push_back({first, std::min(piece->first + piece->count, end) - first, piece->at + first - piece->first});
  }
  return pieces;
}

std::size_t CheckpointTransfer::bytes_of(const Block& block, const std::vector<Piece>& pieces) const {
  std::int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  return static_cast<std::size_t>(count) * element_bytes(block);
}

std::vector<CheckpointTransfer::RemoteBlock> CheckpointTransfer::remote_blocks() const {
  std::vector<RemoteBlock> all;
  if (!transport_) return all;
  for_each_block([&](const Block& block) {
    for (const Holder& holder : holders_[block.of])
      if (holder.rank != rank_ && !pieces_of(block, holder).empty()) all.push_back({block, holder.rank});
  });
  return all;
}

void CheckpointTransfer::make_room() {
  if (room_.size() > 0) return;
  std::size_t end = 0;
  for (const ShardedState& each : states_)
    if (each.offloaded) each.offloaded.all->blocks().make_room_to_hold();
    else end += align_up(each.values.bytes());
  room_ = staging_memory(
      "lockstep::checkpoint", end,
      "it holds a checkpoint while it is written in the background: leave out those on the way (checkpoint.every_…, "
      "keep_best), or divide the optimizer's state among more ranks (parallel.shard)");
  std::size_t begin = 0;
  given_.clear();
  for (const ShardedState& each : states_) {
    if (each.offloaded) {
      given_.push_back(each.values);
      continue;
    }
    given_.push_back({room_.data() + begin, each.values.dtype, each.values.shape});
    begin += align_up(each.values.bytes());
  }
}

void CheckpointTransfer::copy(const ExecSpace& space) {
  for (std::size_t of = 0; of < states_.size(); ++of) {
    const Tensor& from = states_[of].values;
    if (states_[of].offloaded) states_[of].offloaded.all->blocks().hold();
    else if constexpr (memory_is_separate) copy_to_host(space, from, given_[of].data);
    else if (from.count() > 0) std::memcpy(given_[of].data, from.data, from.bytes());
  }
  is_copied_ = true;
}

const std::byte* CheckpointTransfer::whole_block(const Block& block) const {
  if ((memory_is_separate && !is_copied_) || states_[block.of].offloaded) return nullptr;
  const std::vector<Piece> own = pieces_of(block, rank_);
  if (own.size() != 1 || own[0].count != block.count) return nullptr;
  const Tensor& from = is_copied_ ? given_[block.of] : states_[block.of].values;
  return static_cast<const std::byte*>(flat_part(from, {own[0].at, 0}).data);
}

void CheckpointTransfer::read(const Block& block, const Piece& piece, std::byte* to) const {
  if (const OffloadedState& offloaded = states_[block.of].offloaded)
    return offloaded.read(is_copied_ ? StreamedBlocks::Version::held : StreamedBlocks::Version::present, piece.at,
                          piece.count, to);
  const Tensor from = flat_part(is_copied_ ? given_[block.of] : states_[block.of].values, {piece.at, piece.count});
  if (memory_is_separate && !is_copied_) copy_to_host(space_, from, to);
  else std::memcpy(to, from.data, from.bytes());
}

void CheckpointTransfer::write(const Block& block, const Piece& piece, const std::byte* from) const {
  const ShardedState& numbers = states_[block.of];
  if (numbers.offloaded) numbers.offloaded.write(piece.at, piece.count, from);
  else copy_from_host(space_, from, flat_part(numbers.values, {piece.at, piece.count}));
}

void CheckpointTransfer::send(int rank, const void* data, std::size_t bytes) {
  transport_->send(rank, data, bytes);
  wait_until([this] { return transport_->sent(); });
}

void CheckpointTransfer::receive(int rank, void* data, std::size_t bytes) {
  transport_->receive(rank, data, bytes);
  wait_until([this] { return transport_->received(); });
}

/// Asks for a block, and begins to receive the answer.
void CheckpointTransfer::ask(const RemoteBlock& block) {
  const Request request{Request::Kind::give, static_cast<std::int64_t>(block.block.of), block.block.first};
  send(block.rank, &request, sizeof request);
  transport_->receive(block.rank, arriving_.get(), bytes_of(block.block, pieces_of(block.block, block.rank)) + 1);
}

void CheckpointTransfer::gather(const std::function<void(const Block&, const std::byte*)>& take) {
  const std::vector<RemoteBlock> remote_blocks = this->remote_blocks();
  auto next = remote_blocks.begin();
  if (next != remote_blocks.end()) ask(*next);
  for_each_block([&](const Block& block) {
    if (const std::byte* whole = whole_block(block)) return take(block, whole);
    const std::size_t element = element_bytes(block);
    const auto place = [&](const Piece& piece) {
      return block_.get() + static_cast<std::size_t>(piece.first - block.first) * element;
    };
    for (const Piece& piece : pieces_of(block, rank_)) read(block, piece, place(piece));
    while (next != remote_blocks.end() && next->block.of == block.of && next->block.first == block.first) {
      const int rank = next->rank;
      wait_until([this] { return transport_->received(); });
      std::swap(arriving_, arrived_);
      if (++next != remote_blocks.end()) ask(*next);
      const std::byte* from = arrived_.get();
      for (const Piece& piece : pieces_of(block, rank)) {
        const std::size_t bytes = static_cast<std::size_t>(piece.count) * element;
        std::memcpy(place(piece), from, bytes);
        from += bytes;
      }
      validate(*from == std::byte{0}, ExitStatus::io_error,
               "rank {} cannot read its part of the optimizer's state (parallel.offload)", rank);
    }
    take(block, block_.get());
  });
}

void CheckpointTransfer::scatter(const std::function<void(const Block&, std::byte*)>& fill) {
  for_each_block([&](const Block& block) {
    const std::size_t element = element_bytes(block);
    fill(block, block_.get());
    const auto place = [&](const Piece& piece) {
      return block_.get() + static_cast<std::size_t>(piece.first - block.first) * element;
    };
    for (const Piece& piece : pieces_of(block, rank_)) write(block, piece, place(piece));
    for (const Holder& holder : holders_[block.of]) {
      const std::vector<Piece> pieces = pieces_of(block, holder);
      if (holder.rank == rank_ || pieces.empty()) continue;
      std::byte* to = arriving_.get();
      for (const Piece& piece : pieces) {
        const std::size_t bytes = static_cast<std::size_t>(piece.count) * element;
        std::memcpy(to, place(piece), bytes);
        to += bytes;
      }
      const Request request{Request::Kind::take, static_cast<std::int64_t>(block.of), block.first};
      send(holder.rank, &request, sizeof request);
      send(holder.rank, arriving_.get(), bytes_of(block, pieces));
    }
  });
}

void CheckpointTransfer::serve() {
  if (!transport_) return;
  std::exception_ptr failure;
  for (;;) {
    Request request;
    receive(0, &request, sizeof request);
    if (request.kind == Request::Kind::end) break;
    const Block block = block_at(static_cast<std::size_t>(request.of), request.first);
    const std::vector<Piece> pieces = pieces_of(block, rank_);
    const std::size_t bytes = bytes_of(block, pieces);
    const bool takes = request.kind == Request::Kind::take;
    if (takes) receive(0, block_.get(), bytes);
    std::byte* at = block_.get();
    for (const Piece& piece : pieces) {
      try {
        if (takes) write(block, piece, at);
        else read(block, piece, at);
      } catch (const Error&) {
        failure = std::current_exception();
      }
      at += static_cast<std::size_t>(piece.count) * element_bytes(block);
    }
    if (takes) continue;
    *at = std::byte{failure ? std::uint8_t{1} : std::uint8_t{0}};
    send(0, block_.get(), bytes + 1);
  }
  if (failure) std::rethrow_exception(failure);
}

void CheckpointTransfer::end_turn() {
  if (!transport_) return;
  wait_until([this] { return transport_->received(); });  // an answer that a failed turn has asked for
  const Request end;
  for (int rank = 1; rank < transport_->size(); ++rank) send(rank, &end, sizeof end);
}

}  // namespace lockstep
