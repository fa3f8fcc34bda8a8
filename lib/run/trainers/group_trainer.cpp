// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainers/group_trainer.hpp"

#include <algorithm>
#include <utility>

#include "run/trainers/training_checks.hpp"

namespace lockstep {
namespace {

/// Returns the deck without its groups.
RunConfig without_groups(const RunConfig& config) {
  RunConfig together = config;
  together.parallel.local = {};
  return together;
}

}  // namespace

GroupTrainer::GroupTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
                           const Communicator& all)
    : RunTrainer(config, train, all) {
  const RunConfig chosen = with_chosen_shard(config, graph, train, all_);
  const ParallelConfig& parallel = chosen.parallel;
  const Topology topology(all_);
  std::optional<LocalGroup> group;
  partition_ = check_step(chosen, graph, train, topology);
  all_.run_collectively([&] {
    with_positions(config.source, [&] {
      if (parallel.local.streams())  // throws if it is wrong
        local_fragments(ParameterLayout(graph.layer_specs(), chosen.dtype()), parallel.local.fragments);
      group.emplace(parallel.local, topology);
      require_alike_groups(parallel, group->are_equal);
    });
  });
  traits_.steps_between_syncs = parallel.local.every;
  traits_.ranks_have_same_states = group->count == 1;
  const RunConfig together = own_ = without_groups(chosen);
  own_.batch.global = std::max<std::int64_t>(1, group->part_of(std::min(config.batch.largest(), train.size())).count);
  own_.batch.ramp.clear();
  has_split_ = parallel.local.from_step == 0;
  const std::vector<AllReduceRow> measured = read_all_reduce_table(parallel, all_);
  TrainingProblem problem = training_problem(config, graph, std::move(loss), train);
  if (parallel.local.streams())
    problem.between_layers = [this] {
      if (exchange_) exchange_->advance(space_);
    };
  std::unique_ptr<Trainer> trainer;
  if (has_split_) {
    problem.counts_missed = group->count > 1;
    problem.rank_numbers = group->numbers;
    all_.run_in_parts(group->ranks.all, [&] {
      trainer = std::make_unique<Trainer>(own_, std::move(graph), std::move(problem), group->ranks.all);
    });
  } else {
    problem.measured = measured;
    trainer = std::make_unique<Trainer>(together, std::move(graph), std::move(problem), all_);
  }
  set_trainer(std::move(trainer), [this] { return exchange_ ? exchange_->take_exposed_seconds() : 0; });
  exchange_ = std::make_unique<GroupExchange>(
      GroupExchange::Options{.config = parallel,
                             .source = config.source,
                             .measured = measured,
                             .last_step = traits_.known_steps,
                             .counts_steps = config.optimizer.rule().counts_steps()},
      *group,
      GroupExchange::Replica{.parameters = trainer_->model().parameters(),
                             .optimizer = trainer_->optimizer(),
                             .same_part = trainer_->strategy().traits().ranks_of_same_part,
                             .finish_update = [this] { trainer_->strategy().finish_update(space_); },
                             .change = [this](const auto& change) { trainer_->change_parameters(change); }});
}

BatchDealing GroupTrainer::dealing() const {
  if (!is_apart()) return {};
  return {.part_of = [&group = exchange_->group()](std::int64_t batch) { return group.part_of(batch); }};
}

bool GroupTrainer::split_if_due() {
  if (!splits_next()) return false;
  continue_in_group();
  trainer_->update().provide_next();
  return true;
}

void GroupTrainer::continue_in_group() {
  const auto describe = [this](StateFields& fields) { trainer_->describe_state(fields); };
  const std::string state = state_text(describe);
  const LocalGroup& group = exchange_->group();
  all_.run_in_parts(group.ranks.all,
                    [&] { trainer_->continue_on(group.ranks.all, own_, group_count() > 1, group.numbers); });
  restore_state(state, describe);
  has_split_ = true;
}

StepResult GroupTrainer::step(BatchSource& batches, const Calls& calls) {
  const HostBatch& batch = batches.next();
  const bool apart = is_apart();
  if (apart) exchange_->begin_step(space_);
  StepResult result = trainer_->step(batch, calls.requests);
  calls.step_done();
  result.examples = batch.plan.batch_examples;
  if (apart) require_group_done(result.outcome);
  if (!result.done()) {  // the run may end here, with a checkpoint
    note_optimizer_steps();
    return result;
  }
  if (!apart) {
    exchange_->follow(space_);
    return result;
  }
  sync_if_due(batch.plan);
  const bool is_common = has_common_parameters();
  result.requests = {.stop = is_common && all_.any_rank(result.requests.stop),
                     .checkpoint = is_common && all_.any_rank(result.requests.checkpoint)};
  return result;
}

void GroupTrainer::sync_if_due(const BatchPlan& batch) {
  const PhaseClock::Scope phase(trainer_->clock(), RunPhase::reduce);
  const std::int64_t step = trainer_->steps();
  StepUpdate& update = trainer_->update();
  if (exchange_->syncs(step)) update.keep_gradient_square();
  exchange_->end_step(space_, step, batch.global_examples, &update.decisions().scalars()->left_out);
  if (!exchange_->is_common(step)) return;
  if (group_count() > 1) update.guard().agree(space_, all_);
  if (update.decisions().untaken() == 0) note_optimizer_steps();
}

void GroupTrainer::note_optimizer_steps() {
  exchange_->note_optimizer_steps(space_, trainer_->update().count().optimizer_steps());
}

std::optional<StepOutcome> GroupTrainer::settle() {
  std::optional<StepOutcome> outcome = trainer_->settle();
  require_group_done(outcome);
  if (has_common_parameters() || (outcome && !outcome->done())) note_optimizer_steps();
  return outcome;
}

std::optional<StepOutcome> GroupTrainer::take_last() {
  std::optional<StepOutcome> outcome = trainer_->update().take_last();
  require_group_done(outcome);
  if (outcome && !outcome->done()) note_optimizer_steps();
  return outcome;
}

void GroupTrainer::require_group_done(const std::optional<StepOutcome>& outcome) const {
  if (outcome && group_count() > 1 && exchange_->is_apart(outcome->number)) require_done(*outcome);
}

std::vector<ShardedState> GroupTrainer::sharded_states() const {
  const ParameterBuffer& parameters = trainer_->model().parameters();
  if (parameters.layout().is_divided()) return exchange_->sharded_states(trainer_->strategy().sharded_states());
  return exchange_->sharded_states(
      replicated_states(parameters, trainer_->optimizer(), exchange_->group().ranks.all.is_root()));
}

void GroupTrainer::share_parameters() {
  exchange_->share_parameters(space_);
  if (splits_next()) continue_in_group();
  const std::optional<std::int64_t> steps = exchange_->optimizer_steps(space_, trainer_->steps());
  if (steps && has_split_) trainer_->update().set_optimizer_steps(*steps);
  trainer_->share_parameters();
  exchange_->begin(space_, trainer_->steps());
  note_optimizer_steps();
}

}  // namespace lockstep
