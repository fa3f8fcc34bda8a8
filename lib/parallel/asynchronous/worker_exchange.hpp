// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/execution.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// What a worker goes on with.
struct WorkerTurn {
  std::optional<std::int64_t> part{};  ///< its next part of the batches (Sampler::part); none: all workers synchronize
  // At synchronizations only:
  std::int64_t version = 0;   ///< of the parameters
  std::int64_t examples = 0;  ///< number of examples in the updates since the synchronization before
};

/// What travels between asynchronous workers. A worker reads a version of the parameters, computes the gradient of a
/// part of the batches by it, or does a round of steps, and pushes the gradient, or what the round has changed. Version
/// v of the parameters is the result of v updates.
class WorkerExchange {
 public:
  virtual ~WorkerExchange() = default;

  /// Call when the run begins or continues, at a synchronization. All ranks have the parameters of `version`, and their
  /// restored states (sharded_states). `optimizer_steps`, the number of steps behind these, is used if the states carry
  /// no number. Collective; an error of a rank is thrown on all of them.
  virtual void begin(const ExecSpace& space, std::int64_t version, std::int64_t optimizer_steps) = 0;

  /// Lets all workers run until version `sync`, where they synchronize.
  virtual void run_until(std::int64_t sync) = 0;
  /// Returns what this rank goes on with, once the parameters for it are in the buffer. May wait for other ranks.
  virtual WorkerTurn next_turn(const ExecSpace& space) = 0;
  /// Pushes what is in the gradients' memory, which must stay as it is until the next turn.
  virtual void push(const ExecSpace& space) = 0;
  /// Whether what this worker has pushed last came too late to count.
  virtual bool has_dropped() const { return false; }
  /// Goes on with what others wait for. Must not wait.
  virtual void advance(const ExecSpace& /*space*/) {}
  /// Call at the end of a synchronization. Returns Σ of the squares of the last update's sum. Collective.
  virtual double end_sync(const ExecSpace& space) = 0;

  /// Number of steps behind the optimizer's states of the worker whose turn it is, where workers do rounds of steps.
  virtual std::int64_t& optimizer_steps() = 0;
  /// Returns what this rank gives to checkpoints at a synchronization. The memory stays where it is.
  virtual std::vector<ShardedState> sharded_states() const = 0;
  /// Makes sure that the record of the order is on disk, if rank 0 keeps one. From any thread. Throws io_error.
  virtual void flush_record() {}
  /// Outcome of all that was pushed in the first `updates` updates of the run, as far as it is known; on rank 0.
  virtual GradientCounts counts(std::int64_t updates) const = 0;
  /// Seconds that this rank has waited for others since the last call.
  virtual double take_exposed_seconds() = 0;
};

}  // namespace lockstep
