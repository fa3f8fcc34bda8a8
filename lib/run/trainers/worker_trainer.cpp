// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainers/worker_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "optim/replica_steps.hpp"
#include "parallel/asynchronous/free_exchange.hpp"
#include "parallel/asynchronous/simulated_exchange.hpp"
#include "run/trainers/training_checks.hpp"

namespace lockstep {
namespace {

/// Returns a function that tells whether all workers synchronize after a step, given by number: a row, an evaluation, a
/// checkpoint or an audit is due there.
std::function<bool(std::int64_t)> syncs(const RunConfig& config, std::int64_t examples) {
  const std::int64_t of_epoch = std::max<std::int64_t>(1, examples / std::min(config.batch.global, examples));
  const RunOptions::Interval evaluation = config.run.evaluation_interval();
  std::vector<std::int64_t> periods{config.run.log_every, evaluation.count * (evaluation.in_steps ? 1 : of_epoch),
                                    config.checkpoint.every_steps, config.checkpoint.every_epochs * of_epoch,
                                    config.parallel.audit_every};
  std::erase(periods, 0);
  return [periods](std::int64_t step) {
    return std::ranges::any_of(periods, [&](std::int64_t period) { return step % period == 0; });
  };
}

/// Returns the deck of a worker, whose ranks sum `members` gradients in a fixed tree.
RunConfig deck_of_worker(const RunConfig& config, std::int64_t part_examples, std::int64_t members) {
  RunConfig own = config;
  own.parallel = members > 1 ? ParallelConfig::in_fixed_tree(members) : ParallelConfig();
  own.batch.global = part_examples;
  return own;
}

void add(const LossSums& from, LossSums& to) {
  to.loss += from.loss;
  to.correct += from.correct;
  to.weight += from.weight;
  to.counted += from.counted;
}

}  // namespace

WorkerTrainer::WorkerTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
                             const Communicator& all)
    : RunTrainer(config, train, all),
      order_(planned_pushes(config, train.size(), all)),
      record_(config.parallel.runs_freely() ? "" : config.parallel.asynchronous.record),
      does_rounds_(config.parallel.has_stepping_workers()),
      steps_{config.parallel.steps_of_round(), traits_.known_steps},
      syncs_(syncs(config, train.size())) {
  RunConfig known = with_chosen_shard(config, graph, train, all);
  known.parallel.asynchronous.recorded = {order_.members(), order_.workers()};
  const ParallelConfig& parallel = known.parallel;
  const bool runs_freely = parallel.runs_freely();
  const Topology topology(all);
  if (!runs_freely) traits_.known_steps = steps_.last = steps_.after(order_.updates());
  traits_.ranks_have_same_states = false;
  traits_.states_change_early = true;
  partition_ = check_step(known, graph, train, topology);
  const FreeRules rules = runs_freely ? free_rules(parallel, all.size(), traits_.known_steps)
                                      : FreeRules{.workers = all.size(),
                                                  .collect = order_.collect(),
                                                  .parts_of_batch = order_.parts_of_batch()};
  parts_of_batch_ = rules.parts_of_batch;
  collect_ = rules.collect;
  part_examples_ = config.batch.global / parts_of_batch_;

  const int ranks_of_worker = parallel.ranks_of_worker(all.size());
  const Topology ranks = topology.of(all.split(all.rank() / ranks_of_worker));
  const WorkerPlace place(all, ranks, rules.workers);
  const std::int64_t members = runs_freely ? place.members() : order_.members();
  TrainingProblem problem = training_problem(config, graph, std::move(loss), train);
  problem.measures_noise = false;  // of gradients by the parameters of many versions
  problem.between_layers = [this] {
    if (exchange_) exchange_->advance(space_);
  };
  const RunConfig own = deck_of_worker(config, part_examples_, members);
  if (runs_freely && (!does_rounds_ || place.is_server()))
    problem.strategy = [&](const ShardGroups& groups, ParameterBuffer& parameters) {
      parameters.own({does_rounds_ ? ElementRange{} : place.kept(parameters)});  // a server does no rounds
      return std::make_unique<WorkerGradients>(own.parallel, groups, parameters);
    };
  std::unique_ptr<Trainer> trainer;
  all.run_in_parts(ranks.all,
                   [&] { trainer = std::make_unique<Trainer>(own, std::move(graph), std::move(problem), ranks.all); });
  set_trainer(std::move(trainer), [this] { return exchange_ ? exchange_->take_exposed_seconds() : 0; });
  if (runs_freely)
    exchange_ = std::make_unique<FreeExchange>(
        parallel, rules, all, place, part_examples_, parameters(), trainer_->optimizer(),
        [this](std::int64_t updates) { return trainer_->update().scalars(updates); });
  else
    exchange_ = std::make_unique<SimulatedExchange>(parallel, steps_, order_, all, part_examples_, parameters(),
                                                    trainer_->optimizer());
  if (does_rounds_)
    begun_ = OwnedTensor("lockstep::worker_trainer::begun", parameters().dtype(), {parameters().trained_size()});
}

BatchDealing WorkerTrainer::dealing() const {
  return {.parts_of_batch = parts_of_batch_,
          .on_demand = true,
          .gradients_of_update = collect_,
          .gradients_of_batch = parts_of_batch_};
}

StepResult WorkerTrainer::step(BatchSource& batches, const Calls& calls) {
  exchange_->run_until(steps_.next_sync(version_ + 1, syncs_));
  losses_ = pushed_ = {};
  longest_step_ = 0;
  WorkerTurn turn = next_turn();
  for (; turn.part; turn = next_turn()) do_round(batches, *turn.part, calls);
  const StepOutcome outcome = synchronize(turn);
  batches.skip_to_batch(trainer_->steps());
  const RankRequests own = calls.requests();
  return {.requests = {.stop = all_.any_rank(own.stop), .checkpoint = all_.any_rank(own.checkpoint)},
          .examples = turn.examples,
          .outcome = outcome,
          .longest_step = all_.all_reduce_max(longest_step_)};
}

/// Waits for what this rank goes on with, and counts the losses of the round before.
WorkerTurn WorkerTrainer::next_turn() {
  const PhaseClock::Scope phase(trainer_->clock(), RunPhase::reduce);
  const WorkerTurn turn = exchange_->next_turn(space_);
  count_losses();
  return turn;
}

/// Adds the losses of the last gradient, unless it was dropped.
void WorkerTrainer::count_losses() {
  if (!exchange_->has_dropped()) add(pushed_, losses_);
  pushed_ = {};
}

void WorkerTrainer::do_round(BatchSource& batches, std::int64_t round, const Calls& calls) {
  const std::int64_t update = round / parts_of_batch_, place = round % parts_of_batch_;
  StepUpdate& steps = trainer_->update();
  if (does_rounds_) {
    copy(space_, values(), begun_.get());
    steps.go_to(steps_.after(update), exchange_->optimizer_steps());
  } else {
    steps.go_to(update, std::nullopt);
  }
  for (std::int64_t step = steps_.after(update); step < steps_.after(update + 1); ++step) {
    do_step(batches.part(step * parts_of_batch_ + place));
    calls.step_done();
  }
  if (does_rounds_) {
    exchange_->optimizer_steps() = steps.count().optimizer_steps();
    weighted_difference(space_, 1, begun_.get(), values(), parameters().gradients({0, parameters().trained_size()}));
  }
  const PhaseClock::Scope phase(trainer_->clock(), RunPhase::reduce);
  exchange_->push(space_);
}

void WorkerTrainer::do_step(const HostBatch& batch) {
  const Timer timer;
  const StepResult result = trainer_->step(batch);
  add(trainer_->loss_sums(), does_rounds_ ? losses_ : pushed_);
  longest_step_ = std::max(longest_step_, timer.seconds());
  require_done(*result.outcome);  // known at once: workers compute on hosts
  if (!result.outcome->message.empty()) warn("{}", result.outcome->message);
}

StepOutcome WorkerTrainer::synchronize(const WorkerTurn& turn) {
  const PhaseClock::Scope phase(trainer_->clock(), RunPhase::reduce);
  version_ = turn.version;
  norm_ = std::sqrt(exchange_->end_sync(space_)) / static_cast<double>(collect_);
  if (!does_rounds_) norm_ /= static_cast<double>(part_examples_);
  trainer_->update().go_to(steps_.after(version_), std::nullopt);
  return trainer_->inspect_parameters(all_);
}

void WorkerTrainer::share_parameters() {
  all_.run_collectively([&] { version_ = steps_.updates_before(trainer_->steps()); });
  all_.run_on_root([&] { write_record(record_, order_); });
  all_.broadcast(space_, parameters().values());
  parameters().round(space_);
  trainer_->share_parameters();
  exchange_->begin(space_, version_, trainer_->update().count().optimizer_steps());
}

}  // namespace lockstep
