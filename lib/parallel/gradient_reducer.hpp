// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/tensor.hpp"

namespace lockstep {

/// Sums the flat gradient buffer over all ranks. Nothing is averaged: the optimizer divides the sum once, by the number
/// of examples of all ranks.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// Whose shards those of the next steps are: so many of each rank, one rank's behind the other's; empty: equally
  /// many. Of use where shards are summed one by one.
  virtual void deal_shards(std::span<const std::int64_t> /*of_ranks*/) {}
  /// The elements before `end` are final, of this rank or of one of its shards.
  virtual void ready(const ExecSpace& space, std::int64_t end) = 0;
  /// So is all the rest of this rank's, or of the shard's: its gradients may be overwritten by the next shard's.
  virtual void shard_done(const ExecSpace& space) = 0;
  /// Waits for all that is left; afterwards every rank holds the same gradients. `meanwhile` is called again and again,
  /// and does not wait. Collective.
  virtual void finish(const ExecSpace& space, const std::function<void()>& meanwhile) = 0;
  /// Of the step's last sum of gradients: elements before which all are sums already.
  virtual std::int64_t summed() const { return 0; }
  /// Seconds that the step has waited since the last call.
  virtual double take_exposed_seconds() = 0;
};

}  // namespace lockstep
