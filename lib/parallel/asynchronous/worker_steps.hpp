// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>

#include "nn/parameters/parameter_buffer.hpp"
#include "optim/optimizer.hpp"
#include "parallel/asynchronous/update_steps.hpp"
#include "parallel/own_steps.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// The steps that an asynchronous worker does by itself between reading parameters and giving what it has changed
/// (asynchronous local SGD: Liu et al. 2024, "Asynchronous Local-SGD training for language modeling"). They are steps
/// of the worker's own optimizer, whose states stay with it.
///
/// The run's batches have equal parts, and an update has as many rounds: round r of update u (both from 0 on) computes
/// part r of each of the update's batches. The learning rate is that of the batch's step; what optimizers count are the
/// worker's own steps.
class WorkerSteps {
 public:
  /// `parts` is the number of parts of a batch.
  WorkerSteps(const UpdateSteps& steps, std::int64_t parts, ParameterBuffer& parameters);

  /// Begins round number `round` of the run, with the parameters in the buffer.
  void begin(const ExecSpace& space, std::int64_t round);
  bool under_way() const { return done_ < of_round_; }
  /// Number, among the parts of all batches, of the part that the next step computes.
  std::int64_t part() const { return (first_step_ + done_) * parts_ + place_; }

  /// Makes a step by the gradients in the buffer. `own` counts the worker's steps. `judged` must be in host memory.
  void update(const ExecSpace& space, Optimizer& optimizer, const ParallelStrategy::Coefficients& coefficients,
              const UpdateScalars& judged, OwnSteps& own);
  /// Ends a step, whether it was made or not; returns whether the round is over.
  bool end_step() { return ++done_ == of_round_; }
  /// Writes what the round has changed to the gradients' memory: the parameters that it began with, minus those now.
  void take_difference(const ExecSpace& space) const;

 private:
  Tensor values() const { return parameters_.values({0, parameters_.trained_size()}); }

  UpdateSteps steps_;
  std::int64_t parts_;
  ParameterBuffer& parameters_;
  OwnedTensor begun_;  ///< the parameters that the round began with
  UpdateScalarsMemory scalars_;
  std::int64_t first_step_ = 0, place_ = 0;
  std::int64_t done_ = 0, of_round_ = 0;  ///< steps done, of this round's
};

/// Adds what checkpoints hold of a worker that steps by itself: the states of its optimizer, and the number of steps
/// behind them. `own` is that count on the rank that holds the states, and null on all others.
void add_numbers_of_worker(const std::vector<Optimizer::State>& states, const OwnSteps* own,
                           ShardedState::Replica worker, std::vector<ShardedState>& all);

}  // namespace lockstep
