// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/group_trainer.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/text_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "comm/collective/all_reduce_table.hpp"
#include "comm/device_all_reduce.hpp"
#include "run/training/prepared_run.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {
namespace {

/// Returns the rows of parallel.all_reduce_table if it was measured with as many ranks and nodes; otherwise none.
/// Collective.
std::vector<AllReduceRow> read_all_reduce_table(const ParallelConfig& parallel, const Communicator& comm) {
  const std::string& file = parallel.sums.all_reduce_table;
  if (file.empty()) return {};
  const int nodes = Topology(comm).nodes;
  std::string text;
  comm.run_on_root([&] { text = read_deck_file(file); });
  comm.broadcast(text);
  std::vector<AllReduceRow> rows;
  comm.run_collectively([&] {
    const AllReduceTable table = read_table(text, file);
    rows = table.rows();
    const bool by_library = std::ranges::any_of(rows, [](const auto& row) { return row.algorithm->by_library; });
    validate(!by_library || (parallel.sums.wire == GradientSumConfig::Wire::fp32 && !comm.network()),
             ExitStatus::bad_deck,
             "{}: uses the MPI library's all-reduce, which supports neither parallel.wire nor --emulate-network; leave "
             "these out, or the table",
             file);
    if (table.ranks == comm.size() && table.nodes == nodes) return;
    if (comm.is_root())
      warn("{}: was measured with {} ranks on {} nodes, not with {} on {}; it is ignored", file, table.ranks,
           table.nodes, comm.size(), nodes);
    rows.clear();
  });
  return rows;
}

/// Returns the deck with the choice that rank 0 makes for `parallel.shard: auto` on these ranks. Collective.
RunConfig with_chosen_shard(const RunConfig& config, Graph& graph, const Dataset& train, const Communicator& comm) {
  RunConfig chosen = config;
  if (!config.parallel.sharding.chooses_shard) return chosen;
  const Topology topology(comm);
  const RankCount ranks{comm.size(), topology.nodes};
  const bool has_unequal_groups = config.parallel.synchronizes_groups() && !config.parallel.local.group &&
                                  topology.smallest * topology.nodes != comm.size();
  if (has_unequal_groups) {  // their ranks would own different parts
    chosen.parallel.sharding.take(Shard::none);
    return chosen;
  }
  const DeviceFacts facts = device_facts(comm);
  comm.run_on_root([&] {
    with_positions(config.source, [&] {
      validate_key(
          config.parallel.sharding.machine.empty() || config.shard_times, "parallel.machine",
          "is read only by lockstep train, not in studies or in other programs; leave it out, or name a shard");
      const std::optional<ShardChoice> choice = resolve_shard(
          chosen, graph, memory_estimate(config, graph, train, ranks), synchronous_ranks(config.parallel, ranks),
          has_whole_sums(config.parallel, facts));
      if (choice->fits) log("parallel.shard: {}", choice->why);
    });
  });
  const auto shard = static_cast<std::int64_t>(chosen.parallel.sharding.shard);
  chosen.parallel.sharding.take(static_cast<Shard>(comm.from_root(shard)));
  return chosen;
}

/// Returns a function that tells whether ranks that train separately synchronize after a step, given by number, because
/// the run reads its parameters there or writes a row.
std::function<bool(std::int64_t)> syncs(const RunConfig& config, std::int64_t examples) {
  const std::int64_t of_epoch = std::max<std::int64_t>(1, examples / std::min(config.batch.global, examples));
  const RunOptions::Interval evaluation = config.run.evaluation_interval();
  std::vector<std::int64_t> periods{config.run.log_every,
                                    evaluation.count * (evaluation.in_steps ? 1 : of_epoch),
                                    config.checkpoint.every_steps,
                                    config.checkpoint.every_epochs * of_epoch,
                                    config.parallel.audit_every};
  std::erase(periods, 0);
  return [periods](std::int64_t step) {
    return std::ranges::any_of(periods, [&](std::int64_t period) { return step % period == 0; });
  };
}

/// What a trainer depends on besides the deck of its ranks.
struct TrainerRun {
  RunLength length;
  std::vector<AllReduceRow> measured;
  bool counts_missed = false;
  std::vector<std::int64_t> rank_numbers{};
};

std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& ranks, TrainerRun run) {
  PushOrder pushes = planned_pushes(config, train.size(), ranks);
  const std::int64_t known_steps = config.parallel.asynchronous.replay.empty()
                                       ? run.length.steps()
                                       : UpdateSteps{config.parallel.steps_of_round(), run.length.steps()}.after(
                                             pushes.updates());
  RunConfig known = config;
  known.parallel.asynchronous.recorded = {pushes.members(), pushes.workers()};
  return std::make_unique<Trainer>(
      known, std::move(graph),
      TrainingProblem{.loss = std::move(loss),
                      .data = train,
                      .normalize = config.data.normalize,
                      .augment = config.data.augment,
                      .seed = static_cast<std::uint64_t>(config.run.seed),
                      .length = run.length,
                      .measured = std::move(run.measured),
                      .order = {std::move(pushes), known_steps, syncs(config, train.size())},
                      .counts_missed = run.counts_missed,
                      .rank_numbers = std::move(run.rank_numbers)},
      ranks);
}

/// Throws if these ranks cannot train as the deck says, as far as that depends on the data and the network. Collective.
void check_training(const RunConfig& config, const Dataset& train, const Communicator& ranks) {
  ranks.run_collectively([&] {
    with_positions(config.source, [&] {
      check_examples(config, train.size(), ranks.size());
      const Algorithm* const named = config.parallel.sums.all_reduce;
      validate_key(!named || !named->by_library || !ranks.network(), "parallel.all_reduce",
                   "{} cannot be combined with --emulate-network (it sends its messages itself); use another "
                   "algorithm, or leave --emulate-network out",
                   named ? named->name : "");
    });
  });
}

/// Returns the deck without its groups.
RunConfig without_groups(const RunConfig& config) {
  RunConfig together = config;
  together.parallel.local = {};
  return together;
}

}  // namespace

std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& ranks) {
  check_training(config, train, ranks);
  const RunConfig chosen = with_chosen_shard(config, graph, train, ranks);
  const RunConfig own = chosen.parallel.synchronizes_groups() ? without_groups(chosen) : chosen;
  return make_trainer(
      own, std::move(graph), std::move(loss), train, ranks,
      {.length = run_length(config, train.size()), .measured = read_all_reduce_table(config.parallel, ranks)});
}

GroupTrainer::GroupTrainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss, const Dataset& train,
                           const Communicator& all)
    : all_(all) {
  if (!config.parallel.synchronizes_groups()) {
    trainer_ = make_trainer(config, std::move(graph), std::move(loss), train, all);
    return;
  }
  check_training(config, train, all_);
  const RunConfig chosen = with_chosen_shard(config, graph, train, all_);
  const ParallelConfig& parallel = chosen.parallel;
  const Topology topology(all_);
  std::optional<LocalGroup> group;
  all_.run_collectively([&] {
    with_positions(config.source, [&] {
      batch_partition(chosen, graph, all_.size());  // throws if ranks cannot train so
      const RankCount ranks{all_.size(), topology.nodes};
      if (parallel.sharding.memory_gb > 0)
        check_memory(chosen, graph, memory_estimate(chosen, graph, train, ranks), ranks);
      group.emplace(parallel.local, topology);
      require_alike_groups(parallel, group->are_equal);
    });
  });
  steps_between_syncs_ = parallel.local.every;
  const RunConfig together = own_ = without_groups(chosen);
  own_.batch.global = std::max<std::int64_t>(1, group->part_of(std::min(config.batch.largest(), train.size())).count);
  own_.batch.ramp.clear();
  has_parted_ = parallel.local.from_step == 0;
  const RunLength length = run_length(config, train.size());
  const std::vector<AllReduceRow> measured = read_all_reduce_table(parallel, all_);
  if (has_parted_)
    all_.run_in_parts(group->ranks.all, [&] {
      trainer_ = make_trainer(
          own_, std::move(graph), std::move(loss), train, group->ranks.all,
          {.length = length, .measured = {}, .counts_missed = group->count > 1, .rank_numbers = group->numbers});
    });
  else
    trainer_ = make_trainer(together, std::move(graph), std::move(loss), train, all_,
                            {.length = length, .measured = measured});
  exchange_ = std::make_unique<GroupExchange>(
      GroupExchange::Options{.config = parallel,
                             .source = config.source,
                             .measured = measured,
                             .last_step = length.steps(),
                             .counts_steps = config.optimizer.rule().counts_steps()},
      *group,
      GroupExchange::Replica{.parameters = trainer_->model().parameters(),
                             .optimizer = trainer_->optimizer(),
                             .same_part = trainer_->strategy().traits().ranks_of_same_part,
                             .finish_update = [this] { trainer_->strategy().finish_update(space_); },
                             .change = [this](const auto& change) { trainer_->change_parameters(change); }});
  if (parallel.local.streams()) trainer_->between_layers([this] { exchange_->advance(space_); });
  trainer_->clock().count_waits_of(
      [this] { return trainer_->strategy().take_exposed_seconds() + exchange_->take_exposed_seconds(); });
}

std::function<RankShare(std::int64_t)> GroupTrainer::parts_of_batches() const {
  if (!is_apart()) return {};
  return [&group = exchange_->group()](std::int64_t batch) { return group.part_of(batch); };
}

bool GroupTrainer::part_if_due() {
  if (!parts_next()) return false;
  continue_in_group();
  trainer_->update().go_on();
  return true;
}

void GroupTrainer::continue_in_group() {
  const auto describe = [this](StateFields& fields) { trainer_->describe_state(fields); };
  const std::string state = state_text(describe);
  const LocalGroup& group = exchange_->group();
  all_.run_in_parts(group.ranks.all,
                    [&] { trainer_->continue_on(group.ranks.all, own_, groups() > 1, group.numbers); });
  restore_state(state, describe);
  has_parted_ = true;
}

StepResult GroupTrainer::step(const HostBatch& batch, const std::function<RankRequests()>& requests) {
  if (!exchange_) return trainer_->step(batch, requests);
  const bool apart = is_apart();
  if (apart) exchange_->begin_step(space_);
  StepResult result = trainer_->step(batch, requests);
  result.examples = batch.plan.batch_examples;
  if (apart) expect_done(result.outcome);
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
  if (groups() > 1) update.guard().agree(space_, all_);
  if (update.decisions().untaken() == 0) note_optimizer_steps();
}

void GroupTrainer::note_optimizer_steps() {
  exchange_->note_optimizer_steps(space_, trainer_->update().count().optimizer_steps());
}

std::optional<StepOutcome> GroupTrainer::settle() {
  std::optional<StepOutcome> outcome = trainer_->settle();
  expect_done(outcome);
  if (exchange_ && (has_common_parameters() || (outcome && !outcome->done()))) note_optimizer_steps();
  return outcome;
}

std::optional<StepOutcome> GroupTrainer::take_last() {
  std::optional<StepOutcome> outcome = trainer_->update().take_last();
  expect_done(outcome);
  if (exchange_ && outcome && !outcome->done()) note_optimizer_steps();
  return outcome;
}

/// Throws if a step that a group has done by itself cannot be done: the other groups do not know of it.
void GroupTrainer::expect_done(const std::optional<StepOutcome>& outcome) const {
  if (!outcome || outcome->done() || groups() == 1 || !exchange_->is_apart(outcome->number)) return;
  throw SeparateStepError(
      ExitStatus::internal,
      fmt::format("{} (found by rank {} in a local step; all other ranks end with it)", outcome->message, all_.rank()));
}

std::vector<ShardedState> GroupTrainer::sharded_states() const {
  if (!exchange_) return trainer_->strategy().sharded_states();
  const ParameterBuffer& parameters = trainer_->model().parameters();
  if (parameters.layout().is_divided()) return exchange_->sharded_states(trainer_->strategy().sharded_states());
  return exchange_->sharded_states(
      replicated_states(parameters, trainer_->optimizer(), exchange_->group().ranks.all.is_root()));
}

void GroupTrainer::share_parameters() {
  if (exchange_) {
    exchange_->share_parameters(space_);
    if (parts_next()) continue_in_group();
    const std::optional<std::int64_t> steps = exchange_->optimizer_steps(space_, trainer_->steps());
    if (steps && has_parted_) trainer_->update().set_optimizer_steps(*steps);
  }
  trainer_->share_parameters();
  if (!exchange_) return;
  exchange_->begin(space_, trainer_->steps());
  note_optimizer_steps();
}

}  // namespace lockstep
