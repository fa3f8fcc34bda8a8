// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "nn/parameters/parameter_buffer.hpp"

namespace lockstep {

/// Looks for gradients that are not finite, layer by layer and before ranks are summed, so that a step that
/// has to be left out can be explained.
class OverflowWatch {
 public:
  /// `sums`: of gradients, that each rank computes in a step; of more, the last ones are looked at.
  OverflowWatch(const ParameterBuffer& parameters, const Graph& graph, std::int64_t sums);

  void begin(const ExecSpace& space);
  /// A stretch of this rank's gradients is final; sum by sum.
  void inspect(const ExecSpace& space, const ParameterBuffer& parameters, ParameterRange range);
  void end_sum() { sum_ = std::min(sum_ + 1, sums_ - 1); }
  /// The step, of this number, is over.
  void end(const ExecSpace& space, std::int64_t step) const;
  /// What overflowed first and on which rank, the same text on all ranks: in this step, which is the last one that has
  /// ended, or the one before it. `numbers`: of the ranks, which the text gives; empty: their own. Collective.
  std::string describe(const ExecSpace& space, const Communicator& comm, std::span<const std::int64_t> numbers,
                       std::int64_t step) const;

 private:
  struct Layer {
    std::string name;
    ParameterRange range;
    std::int64_t numbers;  ///< in it, without gaps
  };
  std::vector<Layer> layers_;  ///< in the buffer's order: that of the backward pass
  std::int64_t sums_, sum_ = 0;
  OwnedTensor own_;        // f64 [sums, layers], of the step that is running
  OwnedTensor counts_[2];  // likewise, of the last steps of even and of odd number
};

}  // namespace lockstep
