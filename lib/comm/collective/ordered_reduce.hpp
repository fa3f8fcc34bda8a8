// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "comm/collective/executor.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// Combines a small array of each rank into one that all get, by any associative operation: in the order of ranks, and
/// with the same bits on all of them.
class OrderedReduce final : Payload {
 public:
  /// lower ← lower ∘ upper, each an array of this many bytes.
  using Combine = std::function<void(std::byte* lower, const std::byte* upper)>;

  /// For arrays of at most `bytes`. Collective.
  OrderedReduce(const Topology& topology, std::size_t bytes);

  /// Where the array goes before `start`, and the result is found after it is done.
  std::byte* data() { return own_.data(); }
  /// The one before must be done.
  void start(std::size_t bytes, Combine combine);
  /// Does what can be done now; whether the result is there.
  bool advance();

 private:
  std::span<const std::byte> outgoing(const Step::Part& part) override;
  std::span<std::byte> incoming(const Step::Part& part) override;
  void arrived(const Step::Part& part) override;
  bool advance_in_node();

  std::optional<NodeMemory> memory_;  ///< where all ranks are on one node: two arrays of each, used in turns
  std::optional<Executor> messages_;  ///< else
  Schedule schedule_;
  std::vector<std::byte> own_, incoming_;
  std::size_t most_bytes_, bytes_ = 0, scheduled_bytes_ = 0;
  Combine combine_;
  std::uint64_t number_ = 0;
  bool running_ = false;
};

}  // namespace lockstep
