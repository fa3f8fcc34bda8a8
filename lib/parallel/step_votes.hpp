// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

/// What ranks tell each other with each sum of gradients, in its riders (nn/parameter_buffer.hpp), so that all of them
/// do the same after the same step, and no message of its own is needed.
struct StepVotes {
  bool stop = false;        ///< of any rank: this step is to be the last one
  bool checkpoint = false;  ///< of any rank: it is time for one

  double loss = 0;              ///< summed over the examples of all ranks
  bool bad_parameters = false;  ///< of any rank: the step before has left some that are not finite

  /// Writes this rank's into `riders`; its loss is what that in `sums` (MetricSums) has grown by since the last time,
  /// and of its parameters `nonfinite` (i32 [1]) tells.
  void put(const ExecSpace& space, const Tensor& riders, const Tensor& sums, const Tensor& nonfinite) const;
  /// Reads all ranks' from their sum. Waits for the device.
  static StepVotes read(const ExecSpace& space, const Tensor& riders);
};

}  // namespace lockstep
