// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "nn/parameters/parameter_buffer.hpp"

namespace lockstep {

/// Looks for gradients that are not finite, layer by layer and before they are summed over ranks, to explain why a step
/// is left out.
class OverflowWatch {
 public:
  /// `sums` is the number of gradient sums that a rank computes in a step; of further ones, only the last is kept.
  OverflowWatch(const ParameterBuffer& parameters, const Graph& graph, std::int64_t sums);

  void begin(const ExecSpace& space);
  /// Call when a range of this rank's gradients is final, for one sum after the other.
  void inspect(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range);
  void end_sum() { sum_ = std::min(sum_ + 1, sums_ - 1); }
  /// Ends step number `step`.
  void end(const ExecSpace& space, std::int64_t step) const;
  /// Returns what overflowed first and on which rank, the same text on all ranks. `step` is the last step that has
  /// ended or the one before it. `numbers` are the ranks' numbers in the text; empty: those in `comm`. Collective.
  std::string describe(const ExecSpace& space, const Communicator& comm, std::span<const std::int64_t> numbers,
                       std::int64_t step) const;

 private:
  struct Layer {
    std::string name;
    ElementRange range;
    std::int64_t numbers;  ///< of its elements, gaps not counted
  };
  std::vector<Layer> layers_;  ///< in the order of the flat buffer, which is that of the backward pass
  std::int64_t sums_, sum_ = 0;
  OwnedTensor own_;        // f64 [sums, layers], of the current step
  OwnedTensor counts_[2];  // f64 [sums, layers], of the last even and the last odd step
};

}  // namespace lockstep
