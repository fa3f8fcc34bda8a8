// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "config/deck.hpp"

namespace lockstep {

/// How the ranks of a run read their data: what is held in memory is read by one rank of each node, into memory that
/// all of them share, and long looks through a file are shared out over all ranks. Ten thousand ranks would otherwise
/// ask a file system for ten thousand copies.
class SharedReading {
 public:
  /// By this process alone.
  SharedReading() = default;
  /// `deck`: where complaints about its keys (KeyError) belong; it outlives this. Collective, as are all calls below.
  SharedReading(const Communicator& ranks, const DeckNode& deck)
      : ranks_(ranks), node_(ranks.on_this_node()), deck_(&deck) {}

  /// See Communicator::run_collectively.
  void run_collectively(const std::function<void()>& work) const;

  /// Throws where another rank has found something else than rank 0 (expect_agreement): then what comes next would not
  /// be the same for all. `found`: by this rank, in the place that `where` names.
  void agree(const std::string& where, const std::string& found) const;

  /// Memory of `bytes` bytes as one rank of each node has filled it. Throws what `fill` throws, on all ranks alike.
  using Bytes = std::shared_ptr<const std::byte[]>;
  Bytes load(std::size_t bytes, const std::function<void(std::byte*)>& fill) const;
  /// Whether this rank is the one.
  bool reads() const { return !node_ || node_->is_root(); }
  /// The text of the rank that reads, for all ranks of its node.
  std::string from_reader(std::string text) const;

  /// This rank's share in work of `count` parts.
  struct Part {
    std::int64_t first, end;
  };
  Part part_of(std::int64_t count) const;
  /// Over all ranks.
  std::int64_t all_reduce_max(std::int64_t value) const { return ranks_ ? ranks_->all_reduce_max(value) : value; }

 private:
  std::optional<Communicator> ranks_, node_;
  const DeckNode* deck_ = nullptr;
};

}  // namespace lockstep
