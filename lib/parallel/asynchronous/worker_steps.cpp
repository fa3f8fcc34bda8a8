// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/worker_steps.hpp"

#include "optim/outer_step.hpp"

namespace lockstep {

WorkerSteps::WorkerSteps(const UpdateSteps& steps, std::int64_t parts, ParameterBuffer& parameters)
    : steps_(steps),
      parts_(parts),
      parameters_(parameters),
      begun_("lockstep::worker_steps::begun", parameters.dtype(), {parameters.trained_size()}) {}

void WorkerSteps::begin(const ExecSpace& space, std::int64_t round) {
  const std::int64_t update = round / parts_;
  place_ = round % parts_;
  first_step_ = steps_.after(update);
  done_ = 0;
  of_round_ = steps_.of(update);
  copy(space, values(), begun_.get());
}

void WorkerSteps::update(const ExecSpace& space, Optimizer& optimizer,
                         const ParallelStrategy::Coefficients& coefficients, const UpdateScalars& judged,
                         OwnSteps& own) {
  UpdateScalars scalars = coefficients(first_step_ + done_, own.done());
  scalars.gradient_scale = judged.gradient_scale;
  scalars.left_out = judged.left_out;
  scalars.nonfinite_before = judged.nonfinite_before;
  optimizer.step(space, parameters_, scalars_.set(space, scalars));
  own.add(space, &judged.left_out);
  own.look(space);
}

void WorkerSteps::take_difference(const ExecSpace& space) const {
  weighted_difference(space, 1, begun_.get(), values(), parameters_.gradients({0, parameters_.trained_size()}));
}

void add_numbers_of_worker(const std::vector<Optimizer::State>& states, const OwnSteps* own,
                           ShardedState::Replica worker, std::vector<ShardedState>& all) {
  for (const Optimizer::State& state : states) {
    all.push_back(state_of_one_rank(state.name, state.layout, state.values, own != nullptr));
    all.back().replica = worker;
  }
  OwnSteps::add_sharded_states(own, worker, all);
}

}  // namespace lockstep
