// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <vector>

#include "comm/collective/executor.hpp"
#include "parameters/parameter_layout.hpp"

namespace lockstep {

/// Combines the steps of groups of ranks into their Adasum on all ranks, tensor by tensor: first those of neighbouring
/// groups, in the order of ranks, then of neighbouring pairs, and so on; a group without a neighbour waits for the next
/// round. The tree is that of Horovod's Adasum, which wants a power of two. Layers' statistics are summed.
///
/// The first ranks of groups send whole tensors up the tree and back, and then pass them on within their groups.
/// Between G groups, 2 (G − 1) times the bytes of a step travel, as in a sum; the first rank alone sends and receives 2
/// ⌈log₂ G⌉ times these bytes.
class AdasumExchange final : Payload {
 public:
  /// `numbers` is where a rank has its group's trained parameters and statistics, laid out as in `layout`, and where it
  /// then gets the result. Collective over `ranks`.
  AdasumExchange(const Communicator& ranks, const Communicator& group, const ParameterLayout& layout,
                 const Tensor& numbers);

  /// Combines the groups' steps; all ranks get the same bits. Collective.
  void combine(const ExecSpace& space);
  double take_exposed_seconds();

  /// Number of elements needed besides `numbers`, for what is combined at once.
  static std::int64_t longest_part(const ParameterLayout& layout);

 private:
  /// Messages among some of the ranks.
  struct Exchange {
    Executor executor;
    CommSchedule schedule;
  };
  std::span<const std::byte> outgoing(const CommRound::Part& part) override;
  std::span<std::byte> incoming(const CommRound::Part& part) override;
  void arrived(const CommRound::Part& part) override;
  void run(Exchange& exchange);
  const ElementRange& tensor_of(const CommRound::Part& part) const;
  Tensor place_of(const CommRound::Part& part, bool arrives) const;
  std::byte* on_host(const CommRound::Part& part, const Tensor& place);

  Tensor numbers_;
  std::vector<ElementRange> tensors_;  ///< what is combined at once: each tensor; all statistics
  ElementRange statistics_;
  std::optional<Exchange> between_groups_;  ///< on the first rank of each group
  Exchange in_group_;
  OwnedTensor theirs_, scratch_;    ///< for the longest part
  std::vector<std::byte> staging_;  ///< numbers_ on the host, if it cannot read them in place
  const ExecSpace* space_ = nullptr;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
