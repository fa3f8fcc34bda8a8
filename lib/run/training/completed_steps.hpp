// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "data/sampler.hpp"

namespace lockstep {

/// The steps that a run has done at once, with nothing between them: one, or, where ranks train separately, all steps
/// up to a synchronization. Tells which of the deck's intervals have ended in them.
struct CompletedSteps {
  std::int64_t last = 0;  ///< number of the last step, from 1 on
  std::int64_t count = 1;
  SamplerPosition before;  ///< position in the data before the last step
  SamplerPosition after;   ///< position in the data after it
  bool is_common = true;   ///< ranks have common parameters after these steps

  /// Whether the number of one of these steps is a multiple of `period`.
  bool have_come_to(std::int64_t period) const { return last % period < count; }
  /// Whether an epoch whose number is a multiple of `epochs` has ended in these steps.
  bool have_ended(std::int64_t epochs) const {
    if (count == 1) return after.next == 0 && after.epoch % epochs == 0;
    return after.epoch / epochs > before.epoch / epochs;
  }
};

}  // namespace lockstep
