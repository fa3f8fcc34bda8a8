// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <vector>

#include "comm/collective/executor.hpp"
#include "nn/parameters/parameter_layout.hpp"

namespace lockstep {

/// From the steps of groups of ranks to their Adasum on all ranks, tensor by tensor: of neighbouring groups first, in
/// the order of ranks, then of neighbouring pairs, …; a group without a neighbour waits for the next round. The tree is
/// that of Horovod's Adasum, which wants a power of two. What layers keep as statistics is summed.
///
/// The first ranks of groups send whole tensors up the tree, and back, and then hand them on in their groups: between G
/// groups 2 (G − 1) times the bytes of a step, as a sum does, of which the first rank alone has 2 ⌈log₂ G⌉ times.
class AdasumExchange final : Payload {
 public:
  /// `numbers`: where a rank has its group's, trained parameters and statistics as `layout` has them, and then gets the
  /// result. Collective over `ranks`.
  AdasumExchange(const Communicator& ranks, const Communicator& group, const ParameterLayout& layout,
                 const Tensor& numbers);

  /// All ranks get the same bits. Collective.
  void combine(const ExecSpace& space);
  double take_exposed_seconds();

  /// Elements of the buffer beside `numbers`, for what is combined at a time.
  static std::int64_t longest_part(const ParameterLayout& layout);

 private:
  /// Messages among some of the ranks.
  struct Exchange {
    Executor executor;
    Schedule schedule;
  };
  std::span<const std::byte> outgoing(const Step::Part& part) override;
  std::span<std::byte> incoming(const Step::Part& part) override;
  void arrived(const Step::Part& part) override;
  void run(Exchange& exchange);
  const ParameterRange& tensor_of(const Step::Part& part) const;
  Tensor place_of(const Step::Part& part, bool arrives) const;
  std::byte* on_host(const Step::Part& part, const Tensor& place);

  Tensor numbers_;
  std::vector<ParameterRange> tensors_;  ///< what is combined at a time; of statistics, all
  ParameterRange statistics_;
  std::optional<Exchange> between_groups_;  ///< of the first rank of each
  Exchange in_group_;
  OwnedTensor theirs_, scratch_;    ///< of the longest
  std::vector<std::byte> staging_;  ///< where the host cannot read numbers, as many
  const ExecSpace* space_ = nullptr;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
