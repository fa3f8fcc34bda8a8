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

  /// Begins this rank's part of a step.
  virtual void begin_step(const BatchPlan& /*batch*/) {}
  /// Call when the elements before `end`, of this rank or of one of its shards, are final.
  virtual void ready(const ExecSpace& space, std::int64_t end) = 0;
  /// Call when all gradients of this rank, or of the shard, are final: those of the next sum may then overwrite them.
  virtual void gradient_sum_done(const ExecSpace& space) = 0;
  /// Waits for all that is left; afterwards every rank holds the same gradients. `meanwhile` is called repeatedly and
  /// must not wait. Collective.
  virtual void finish(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;
  /// In the step's last sum of gradients: number of elements, from the first one on, that are sums already.
  virtual std::int64_t summed() const { return 0; }
  /// Seconds that the step has waited since the last call.
  virtual double take_exposed_seconds() = 0;
};

}  // namespace lockstep
