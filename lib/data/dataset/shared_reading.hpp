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

/// How the ranks of a run read their data. What is held in memory is read by one rank of each node, into memory that
/// the node's ranks share; scans through a file are divided among all ranks. Otherwise ten thousand ranks would ask a
/// file system for ten thousand copies.
class SharedReading {
 public:
  /// Reading by this process alone.
  SharedReading() = default;
  /// `deck`: gives KeyErrors their positions; outlives this. Collective, like all member functions below except
  /// `is_root`, `reads` and `part_of`.
  SharedReading(const Communicator& ranks, const DeckNode& deck)
      : ranks_(ranks), node_(ranks.on_this_node()), deck_(&deck) {}

  /// See Communicator::run_collectively.
  void run_collectively(const std::function<void()>& work) const;

  /// Throws if another rank has found something else than rank 0 (expect_agreement), because what follows would then
  /// differ between ranks. `found`: what this rank has found in `where`.
  void agree(const std::string& where, const std::string& found) const;

  /// Returns memory of `bytes` bytes that `fill` fills on one rank of each node. Throws what `fill` throws, on all
  /// ranks.
  using Bytes = std::shared_ptr<const std::byte[]>;
  Bytes load(std::size_t bytes, const std::function<void(std::byte*)>& fill) const;
  /// Whether this is rank 0, which looks for what is worth a warning.
  bool is_root() const { return !ranks_ || ranks_->is_root(); }
  /// Whether this rank reads for its node.
  bool reads() const { return !node_ || node_->is_root(); }
  /// Returns the text of the rank that reads, on all ranks of its node.
  std::string from_reader(std::string text) const;

  /// This rank's part of work that has `count` parts.
  struct Part {
    std::int64_t first, end;
  };
  Part part_of(std::int64_t count) const;
  /// Maximum over all ranks.
  std::int64_t all_reduce_max(std::int64_t value) const { return ranks_ ? ranks_->all_reduce_max(value) : value; }

 private:
  std::optional<Communicator> ranks_, node_;
  const DeckNode* deck_ = nullptr;
};

}  // namespace lockstep
