// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/asynchronous_workers.hpp"

#include <utility>

#include "optim/replica_steps.hpp"

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
  add_next_step(own ? own->next() : Tensor{nullptr, DType::f64, {1}}, own != nullptr, worker, all);
}

AsynchronousWorkers::AsynchronousWorkers(Run run, Give what, ParameterBuffer& parameters)
    : run_(std::move(run)),
      parameters_(parameters),
      square_(parameters.trained_size()),
      at_sync_("lockstep::asynchronous_workers::square", DType::f64, {1}) {
  if (what == Give::rounds) round_.emplace(run_.steps, run_.parts_of_batch, parameters);
  traits_.dealing.next_part = [this](const ExecSpace& space) { return next_part(space); };
  traits_.ranks_have_same_states = false;
  traits_.states_change_early = true;
}

void AsynchronousWorkers::go_on_after(std::int64_t steps, std::int64_t optimizer_steps) {
  run_.synced = run_.steps.updates_before(steps);
  run_.optimizer_steps = optimizer_steps;
}

PartRequest AsynchronousWorkers::next_part(const ExecSpace& space) {
  if (std::exchange(syncs_, false)) {
    is_first_ = true;
    set_out(run_.steps.next_sync(run_.synced + 1, run_.course.syncs));
  }
  if (round_ && round_->under_way()) return request(round_->part());
  const Turn turn = next_turn(space);
  if (turn.part) {
    if (!round_) return request(*turn.part);
    round_->begin(space, *turn.part);
    return request(round_->part());
  }
  syncs_ = true;
  sync_version_ = turn.version;
  // The caller takes the square of the gradients for that of a sum over all examples since the last synchronization.
  factor_ = round_ ? static_cast<double>(turn.examples) / static_cast<double>(run_.collect)
                   : static_cast<double>(turn.version - run_.synced);
  return {.batches = run_.steps.after(turn.version), .examples = turn.examples};
}

UpdateScope AsynchronousWorkers::begin_step(const ExecSpace&, std::int64_t, const BatchPlan& batch) {
  UpdateScope scope = scope_of_step(batch);
  if (std::exchange(is_first_, false)) scope.in_run.losses = UpdateScope::Losses::anew;
  if (!syncs_) {
    scope.syncs = false;
    scope.in_run.steps = 0;
    return scope;
  }
  return {.examples = batch.global_examples,
          .one_version = false,
          .in_run = {.steps = run_.steps.after(sync_version_) - run_.steps.after(run_.synced),
                     .losses = scope.in_run.losses}};
}

void AsynchronousWorkers::update(const ExecSpace& space, const UpdateScalars* step, double) {
  if (round_ && !syncs_) round_->update(space, optimizer(), updater().coefficients, *step, own_steps());
}

void AsynchronousWorkers::end_step(const ExecSpace& space) {
  if (syncs_) {
    run_.synced = sync_version_;
    sync_is_over();
  } else if (round_ && round_->end_step()) {
    round_->take_difference(space);
    round_is_over(space);
  }
}

Tensor AsynchronousWorkers::measure_gradients(const ExecSpace& space, Measure what) {
  if (what == Measure::nonfinite) {  // asked for only if losses are scaled, which asynchronous training refuses
    fill_zero(space, at_sync_.get());
    return at_sync_.get();
  }
  if (!syncs_) return square_.compute(space, parameters_.gradients({0, parameters_.trained_size()}));
  const double square = square_of_sum(space) * factor_ * factor_;
  copy_from_host(space, &square, at_sync_.get());
  return at_sync_.get();
}

}  // namespace lockstep
