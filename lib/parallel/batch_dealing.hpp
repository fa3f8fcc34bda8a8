// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/execution.hpp"
#include "data/sampler.hpp"

namespace lockstep {

/// Deals the examples of batches out to ranks: the part of ParallelStrategy for code that reads data.
class BatchDealing {
 public:
  virtual ~BatchDealing() = default;

  /// How a rank gets its examples: batches are divided; or steps take parts of them in another order; or a rank asks
  /// for a part of a batch before each step.
  enum class Dealing { batches, in_known_order, as_they_come };
  virtual Dealing dealing() const { return Dealing::batches; }
  /// Number of equal parts of a batch, if steps or ranks take parts; 0: batches are divided.
  virtual std::int64_t parts_of_batch() const { return 0; }
  /// Parts that step number `step` takes, if their order is known.
  virtual std::span<const std::int64_t> parts_of(std::int64_t /*step*/) const { return {}; }
  /// Part of this rank's next step, if ranks ask for parts. Waits for it.
  virtual PartRequest next_part(const ExecSpace& /*space*/) { return {}; }

  /// Number of examples behind an update of the parameters, for batches of `batch` examples.
  virtual std::int64_t examples_of_update(std::int64_t batch) const { return batch; }
};

}  // namespace lockstep
