// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/execution.hpp"
#include "data/sampler.hpp"

namespace lockstep {

/// Of a ParallelStrategy: which examples ranks compute. For who reads data.
class BatchDealing {
 public:
  virtual ~BatchDealing() = default;

  /// How a rank comes by its examples: batches are divided; or steps take parts of them in another order; or a rank
  /// asks for a part of a batch before each step.
  enum class Dealing { batches, in_known_order, as_they_come };
  virtual Dealing dealing() const { return Dealing::batches; }
  /// Of other dealing than that of batches: equal parts of each.
  virtual std::int64_t parts_of_batch() const { return 0; }
  /// In a known order, those that step number `step` takes.
  virtual std::span<const std::int64_t> parts_of(std::int64_t /*step*/) const { return {}; }
  /// As they come, the next one. Waits for it.
  virtual PartRequest next_part(const ExecSpace& /*space*/) { return {}; }

  /// Examples of a batch of so many by which the parameters change.
  virtual std::int64_t examples_of_update(std::int64_t batch) const { return batch; }
};

}  // namespace lockstep
