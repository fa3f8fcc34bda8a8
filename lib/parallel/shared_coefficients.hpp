// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// What the optimizer multiplies with in each step, computed by rank 0 for all ranks, some hundred steps at a time:
/// replicas on different kinds of CPUs would otherwise come to differ by the last bits of their mathematical libraries.
class SharedCoefficients {
 public:
  using Compute = std::function<StepCoefficients(std::int64_t step)>;

  SharedCoefficients(const Communicator& comm, Compute compute) : comm_(comm), compute_(std::move(compute)) {}

  static constexpr std::int64_t steps_at_once = 256;

  struct Table {
    std::int64_t first;                        ///< number of steps before it
    std::span<const StepCoefficients> values;  ///< [steps_at_once]
  };
  /// Returns coefficients of consecutive steps, among them the `count` steps after `step` others. Collective: all ranks
  /// must ask for the same steps.
  Table cover(std::int64_t step, std::int64_t count);
  /// Forgets the known coefficients, which have become others.
  void forget() { known_.clear(); }

 private:
  Communicator comm_;
  Compute compute_;
  std::int64_t first_ = 0;
  std::vector<StepCoefficients> known_;  ///< from step first_ on
};

}  // namespace lockstep
