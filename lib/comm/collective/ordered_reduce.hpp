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

/// An all-reduce of a small array by any associative operation, applied in rank order, with the same bits on all ranks.
class OrderedReduce final : Payload {
 public:
  /// lower ← lower ∘ upper, on arrays of the size passed to `start`.
  using Combine = std::function<void(std::byte* lower, const std::byte* upper)>;

  /// `bytes`: largest size of an array. Collective.
  OrderedReduce(const Topology& topology, std::size_t bytes);

  /// This rank's array before `start`, and the result when it is done.
  std::byte* data() { return own_.data(); }
  /// Starts; the previous operation must be done.
  void start(std::size_t bytes, Combine combine);
  /// Makes what progress is possible without waiting. Returns true if the result is complete.
  bool advance();

 private:
  std::span<const std::byte> outgoing(const CommRound::Part& part) override;
  std::span<std::byte> incoming(const CommRound::Part& part) override;
  void arrived(const CommRound::Part& part) override;
  bool advance_in_node();

  std::optional<NodeMemory> memory_;  ///< if all ranks are on one node: two arrays per rank, used alternately
  std::optional<Executor> messages_;  ///< otherwise
  CommSchedule schedule_;
  std::vector<std::byte> own_, incoming_;
  std::size_t most_bytes_, bytes_ = 0, scheduled_bytes_ = 0;
  Combine combine_;
  std::uint64_t number_ = 0;
  bool running_ = false;
};

}  // namespace lockstep
