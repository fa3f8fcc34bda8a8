// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace lockstep {

/// When ranks hold the same parameters, and when groups of them step by themselves in between: the part of
/// ParallelStrategy for code that looks at parameters, or at how long steps take.
class ReplicaSync {
 public:
  virtual ~ReplicaSync() = default;

  /// Whether groups of ranks do this step by themselves.
  virtual bool is_local(std::int64_t /*step*/) const { return false; }
  /// Whether, after this step, the parameters are those of the run: the same on all ranks.
  virtual bool is_common(std::int64_t /*step*/) const { return true; }
  /// Largest number of steps from one that leaves common parameters to the next.
  virtual std::int64_t steps_between_syncs() const { return 1; }
  /// Whether ranks have the same optimizer states when they have the same parameters.
  virtual bool ranks_have_same_states() const { return true; }
};

}  // namespace lockstep
