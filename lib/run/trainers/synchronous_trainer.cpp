// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainers/synchronous_trainer.hpp"

#include <span>
#include <utility>

#include "parallel/asynchronous/simulated_gradients.hpp"
#include "parallel/data_parallel.hpp"
#include "run/trainers/training_checks.hpp"

namespace lockstep {
namespace {

/// Makes the strategy that sums the gradients of a simulated update: over ranks of the same place, one of each set of
/// ranks that compute a gradient together. Collective.
std::unique_ptr<ParallelStrategy> sums_of_updates(ParallelConfig config, const Topology& topology,
                                                  ParameterBuffer& parameters) {
  const int together = SimulatedGradients::ranks_of_gradient(config.asynchronous, topology.all.size());
  config.asynchronous.recorded.members = 1;  // the pieces of a gradient are summed before
  const Topology ranks = topology.of(topology.all.split(topology.all.rank() % together));
  return std::make_unique<DataParallel>(config, ShardGroups(config, ranks), parameters);
}

}  // namespace

SynchronousTrainer::SynchronousTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                       const Dataset& train, const Communicator& all)
    : RunTrainer(config, train, all),
      order_(planned_pushes(config, train.size(), all)),
      record_(config.parallel.asynchronous.record) {
  RunConfig own = with_chosen_shard(config, graph, train, all);
  TrainingProblem problem = training_problem(config, graph, std::move(loss), train);
  problem.measured = read_all_reduce_table(config.parallel, all);
  if (own.parallel.asynchronous.present) {
    traits_.known_steps = order_.updates();
    own.parallel.asynchronous.recorded = {order_.members(), order_.workers()};
    problem.strategy = [&](const ShardGroups& groups, ParameterBuffer& parameters) {
      return std::make_unique<SimulatedGradients>(own.parallel.asynchronous, groups.ranks.all, order_,
                                                  sums_of_updates(own.parallel, groups.ranks, parameters), parameters);
    };
  }
  set_trainer(std::make_unique<Trainer>(own, std::move(graph), std::move(problem), all), [] { return 0.0; });
  partition_ = trainer_->partition();
}

StepResult SynchronousTrainer::step(BatchSource& batches, const Calls& calls) {
  StepResult result = trainer_->step(batches.next(), calls.requests);
  calls.step_done();
  return result;
}

BatchDealing SynchronousTrainer::dealing() const {
  if (!order_.has_parts()) return {};
  return {.parts_of_batch = order_.parts_of_batch() * order_.members(),
          .parts_of = [&order = order_](std::int64_t step) { return order.pieces_of(step); },
          .gradients_of_update = order_.collect(),
          .gradients_of_batch = order_.parts_of_batch()};
}

GradientCounts SynchronousTrainer::gradient_counts() const {
  return order_.updates() == 0 ? GradientCounts{} : GradientCounts{order_.staleness_counts(trainer_->steps()), 0};
}

void SynchronousTrainer::share_parameters() {
  all_.run_on_root([&] { write_record(record_, order_); });
  trainer_->share_parameters();
}

}  // namespace lockstep
