// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/execution.hpp"
#include "data/sampler.hpp"

namespace lockstep {

/// Which examples ranks compute: a part of ParallelStrategy, for who reads data.
class BatchDealing {
 public:
  virtual ~BatchDealing() = default;

  /// How a rank comes by its examples: batches are divided; or steps take parts of them in another order; or a rank
  /// asks for a part of a batch before each step.
  enum class Dealing { batches, in_known_order, as_they_come };
  virtual Dealing dealing() const { return Dealing::batches; }
  /// How many equal parts a batch has, where steps or ranks take parts; 0: batches are divided.
  virtual std::int64_t parts_of_batch() const { return 0; }
  /// The parts that step number `step` takes, where their order is known.
  virtual std::span<const std::int64_t> parts_of(std::int64_t /*step*/) const { return {}; }
  /// The part of this rank's next step, where they come to ranks that ask. Waits for it.
  virtual PartRequest next_part(const ExecSpace& /*space*/) { return {}; }

  /// Examples of a batch of so many by which the parameters change.
  virtual std::int64_t examples_of_update(std::int64_t batch) const { return batch; }
};

}  // namespace lockstep
