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

/// The steps that an asynchronous worker does by itself between reading parameters and giving away what has become of
/// them (asynchronous local SGD: Liu et al. 2024, "Asynchronous Local-SGD training for language modeling"): those of
/// its own optimizer, whose states stay with it.
///
/// The run's batches have equal parts, and an update is of as many rounds, round r of update u (from 0 on) of part r of
/// each of its batches, or of the first of these where slow workers do fewer steps. The learning rate is that of the
/// batch's step; what optimizers count are the worker's own steps.
class WorkerSteps {
 public:
  /// `parts`: of a batch.
  WorkerSteps(const UpdateSteps& steps, std::int64_t parts, ParameterBuffer& parameters);

  /// Round number `round` of the run begins, with the parameters in the buffer. `steps`: as UpdateSteps::of_round.
  void begin(const ExecSpace& space, std::int64_t round, std::int64_t steps);
  bool under_way() const { return done_ < of_round_; }
  /// Number of the part of the batches that the next step is of.
  std::int64_t part() const { return (first_step_ + done_) * parts_ + place_; }

  /// A step is made, by the gradients in the buffer. `own`: the worker's; `judged`: in the host's memory.
  void update(const ExecSpace& space, Optimizer& optimizer, const ParallelStrategy::Coefficients& coefficients,
              const StepScalars& judged, OwnSteps& own);
  /// The step is over, made or not; whether the round is.
  bool end_step() { return ++done_ == of_round_; }
  /// What the round has changed takes the gradients' place: the parameters that it began with, less those now.
  void take_difference(const ExecSpace& space) const;

 private:
  Tensor values() const { return parameters_.values({0, parameters_.trained_size()}); }

  UpdateSteps steps_;
  std::int64_t parts_;
  ParameterBuffer& parameters_;
  OwnedTensor begun_;  ///< the parameters that the round began with
  StepScalarsMemory scalars_;
  std::int64_t first_step_ = 0, place_ = 0;
  std::int64_t done_ = 0, of_round_ = 0;  ///< steps
};

/// What checkpoints hold of a worker that steps by itself: the states of its optimizer, and how many steps they come
/// of. `own`: of who holds them, whose the states are; null: somebody else does.
void add_numbers_of_worker(const std::vector<Optimizer::State>& states, const OwnSteps* own,
                           ShardedState::Replica worker, std::vector<ShardedState>& all);

}  // namespace lockstep
