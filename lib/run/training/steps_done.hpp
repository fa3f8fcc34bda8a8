// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "data/sampler.hpp"

namespace lockstep {

/// The steps that a run has done at once, with nothing between them: one, or, where ranks go their own ways, those up
/// to where they synchronize. Which of the deck's intervals have ended with them.
struct StepsDone {
  std::int64_t last = 0;  ///< number of the last one, from 1 on
  std::int64_t count = 1;
  SamplerPosition before;  ///< where the run stood in its data before the last one
  SamplerPosition after;   ///< and after it
  bool is_common = true;   ///< after them, ranks have common parameters

  /// Whether the number of one of them is a multiple of `period`.
  bool have_come_to(std::int64_t period) const { return last % period < count; }
  /// Whether they have come to, or gone past, the end of an epoch whose number is a multiple of `epochs`.
  bool have_ended(std::int64_t epochs) const {
    if (count == 1) return after.next == 0 && after.epoch % epochs == 0;
    return after.epoch / epochs > before.epoch / epochs;
  }
};

}  // namespace lockstep
