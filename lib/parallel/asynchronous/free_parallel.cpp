// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_parallel.hpp"

#include <array>

#include "base/duration.hpp"

namespace lockstep {

FreeParallel::FreeParallel(const ParallelConfig& config, const Communicator& ranks, const Topology& group,
                           WorkersCourse course, ParameterBuffer& parameters)
    : FreeParallel(config, free_rules(config, ranks.size(), course.last), ranks, group, std::move(course), parameters) {
}

FreeParallel::FreeParallel(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                           const Topology& group, WorkersCourse course, ParameterBuffer& parameters)
    : AsynchronousWorkers(
          {.course = course, .steps = rules.steps, .parts_of_batch = rules.parts_of_batch, .collect = rules.collect},
          config.has_stepping_workers() ? Give::rounds : Give::gradients, parameters),
      ranks_(ranks),
      group_(ranks, group, parameters),
      parameters_(parameters),
      store_(config, rules, ranks, group_, config.record(), course.batch / rules.parts_of_batch, parameters) {
  if (config.has_stepping_workers()) own_.emplace(group_.ranks());
  traits_.dealing.parts_of_batch = rules.parts_of_batch * group_.size();
  traits_.dealing.gradients_of_update = rules.collect;
  traits_.dealing.gradients_of_batch = rules.parts_of_batch;
  traits_.flush_files = [this] { store_.flush_record(); };
}

void FreeParallel::go_on_after(std::int64_t steps, std::int64_t optimizer_steps) {
  AsynchronousWorkers::go_on_after(steps, optimizer_steps);
  store_.go_on_after(run().synced);
}

void FreeParallel::bind(const Updater& updater) {
  AsynchronousWorkers::bind(updater);
  store_.bind(updater);
}

void FreeParallel::share(const ExecSpace& space) {
  ranks_.broadcast(space, parameters_.values());
  parameters_.round(space);
  store_.adopt(space, run().synced);
  if (!own_) return;
  share_states(space, group_.ranks(), optimizer());
  own_->begin(space, group_.ranks(), run().optimizer_steps);
}

std::vector<ShardedState> FreeParallel::sharded_states() const {
  if (!own_) return owned_states(parameters_, optimizer(), ranks_.is_root(), true);
  std::vector<ShardedState> all{replicated_parameters(parameters_, ranks_.is_root())};
  for (int worker = 0; worker < store_.workers(); ++worker)
    add_numbers_of_worker(optimizer().states(),
                          worker == store_.worker() && group_.ranks().is_root() ? &*own_ : nullptr,
                          {worker, store_.workers()}, all);
  store_.add_sharded_states(all);
  return all;
}

AsynchronousWorkers::Turn FreeParallel::next_turn(const ExecSpace& space) {
  const Timer timer;
  const StoreEvent turn = store_.next_turn(space);
  group_.gather();
  store_.serve_unchanged_until(space, [&] { return group_.gathered(); });
  exposed_seconds_ += timer.seconds();
  parameters_.round(space);
  if (turn.kind != StoreEvent::Kind::sync) return {.part = turn.part};
  store_.end_course();
  return {.version = store_.version(), .examples = store_.examples()};
}

UpdateScope FreeParallel::scope_of_step(const BatchPlan& batch) const {
  using Losses = UpdateScope::Losses;
  return {.examples = batch.global_examples * group_.size(),
          .group = &group_.ranks(),
          .in_run = {.losses = store_.has_dropped() ? Losses::in_place_of_last : Losses::added}};
}

void FreeParallel::gradient_sum_done(const ExecSpace& space) {
  if (!syncs()) group_.piece_done(space);
}

void FreeParallel::finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) {
  meanwhile();
  if (syncs()) return;
  group_.sum(space, [&] {
    meanwhile();
    store_.advance(space);
  });
  if (!own_) store_.give(space, group_.ranks().is_root());
}

double FreeParallel::square_of_sum(const ExecSpace& space) {
  std::array<double, 1> square{store_.square(space)};
  ranks_.all_reduce_sum(square);
  return square[0];
}

}  // namespace lockstep
