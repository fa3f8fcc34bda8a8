// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>

#include "core/tensor.hpp"
#include "data/sampler.hpp"

namespace lockstep {

/// Sums the flat gradient buffer over all ranks. Nothing is averaged: the optimizer divides the sum once, by the number
/// of examples of all ranks.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// This rank's part of a step begins.
  virtual void begin_step(const BatchPlan& /*batch*/) {}
  /// The elements before `end` are final, of this rank or of one of its shards.
  virtual void ready(const ExecSpace& space, std::int64_t end) = 0;
  /// All gradients of this rank, or of the shard, are final: those of the next sum may overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// Waits for all that is left; afterwards every rank holds the same gradients. `meanwhile` is called again and again,
  /// and does not wait. Collective.
  virtual void finish(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;
  /// Of the step's last sum of gradients: elements before which all are sums already.
  virtual std::int64_t summed() const { return 0; }
  /// Seconds that the step has waited since the last call.
  virtual double take_exposed_seconds() = 0;
};

}  // namespace lockstep
