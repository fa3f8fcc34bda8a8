// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

/// When ranks hold the same, and when groups of them go their own ways in between: a part of ParallelStrategy, for who
/// looks at parameters, or at how long steps take.
class ReplicaSync {
 public:
  virtual ~ReplicaSync() = default;

  /// Whether groups of ranks do this step by themselves.
  virtual bool is_local(std::int64_t /*step*/) const { return false; }
  /// Whether, after this step, parameters are those of the run: the same on all ranks.
  virtual bool is_common(std::int64_t /*step*/) const { return true; }
  /// Most steps from one that leaves common parameters to the next.
  virtual std::int64_t steps_between_syncs() const { return 1; }
  /// After a step that leaves common parameters: how long the passes of a step took each rank before, in any unit. Of
  /// the steps up to the next such one, those that the slowest rank does.
  virtual std::int64_t follow_times(std::span<const double> /*times*/) { return steps_between_syncs(); }
  /// Whether the optimizer's states are the same where parameters are.
  virtual bool ranks_have_same_states() const { return true; }
};

}  // namespace lockstep
