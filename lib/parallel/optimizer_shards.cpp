// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/optimizer_shards.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

std::string text_of(const std::vector<ParameterRange>& ranges) {
  return {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(ParameterRange)};
}
std::vector<ParameterRange> ranges_of(const std::string& text) {
  std::vector<ParameterRange> ranges(text.size() / sizeof(ParameterRange));
  std::memcpy(ranges.data(), text.data(), text.size());
  return ranges;
}

/// Elements [first, first + count).
Tensor elements_of(const Tensor& numbers, std::int64_t first, std::int64_t count) {
  return {static_cast<std::byte*>(numbers.data) + static_cast<std::size_t>(first) * size_of(numbers.dtype),
          numbers.dtype,
          {count}};
}

}  // namespace

OptimizerShards::OptimizerShards(const Communicator& ranks, const ParameterLayout& layout)
    : ranks_(ranks), layout_(layout) {
  for (const std::string& text : ranks_.gather_to_root(text_of(layout.owned()))) owned_.push_back(ranges_of(text));
}

WholeStates OptimizerShards::gather(const ExecSpace& space, const Optimizer& optimizer) const {
  WholeStates whole;
  ranks_.run_collectively([&] {
    if (ranks_.is_root()) whole = optimizer.room_for_whole_states(layout_);
  });
  std::string piece;
  const auto put = [&](std::size_t state, const ParameterRange& range) {
    const Tensor to = elements_of(whole.states[state].values, range.first, range.count);
    std::memcpy(to.data, piece.data(), piece.size());
  };
  for (std::size_t state = 0; state < optimizer.states().size(); ++state) {
    const Tensor& own = optimizer.states()[state].values;
    std::int64_t at = 0;
    const auto copy_own = [&](const ParameterRange& range) {
      const Tensor from = elements_of(own, at, range.count);
      piece.resize(from.bytes());
      copy_to_host(space, from, piece.data());
      at += range.count;
    };
    if (!ranks_.is_root()) {
      for (const ParameterRange& range : layout_.owned()) {
        copy_own(range);
        ranks_.to_root(piece, ranks_.rank());
      }
      continue;
    }
    for (const ParameterRange& range : layout_.owned()) {
      copy_own(range);
      put(state, range);
    }
    for (int rank = 1; rank < ranks_.size(); ++rank)
      for (const ParameterRange& range : owned_[static_cast<std::size_t>(rank)]) {
        piece = ranks_.to_root({}, rank);
        put(state, range);
      }
  }
  return whole;
}

void OptimizerShards::scatter(const ExecSpace& space, const WholeStates& whole, const Optimizer& optimizer) const {
  constexpr std::int64_t piece_elements = 1 << 20;
  std::vector<std::byte> piece;
  for (std::size_t state = 0; state < optimizer.states().size(); ++state) {
    const Tensor& own = optimizer.states()[state].values;
    for (std::int64_t first = 0; first < layout_.trained_size(); first += piece_elements) {
      const std::int64_t end = std::min(layout_.trained_size(), first + piece_elements);
      piece.resize(static_cast<std::size_t>(end - first) * size_of(own.dtype));
      if (ranks_.is_root())
        std::memcpy(piece.data(), elements_of(whole.states[state].values, first, end - first).data, piece.size());
      ranks_.broadcast(std::span(piece));
      std::int64_t at = 0;
      for (const ParameterRange& range : layout_.owned()) {
        const std::int64_t begin = std::max(first, range.first), stop = std::min(end, range.first + range.count);
        if (begin < stop)
          copy_from_host(space, piece.data() + static_cast<std::size_t>(begin - first) * size_of(own.dtype),
                         elements_of(own, at + begin - range.first, stop - begin));
        at += range.count;
      }
    }
  }
}

}  // namespace lockstep
