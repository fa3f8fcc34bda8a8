// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainers/run_trainer.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/text_file.hpp"
#include "comm/collective/all_reduce_table.hpp"
#include "comm/device_all_reduce.hpp"
#include "run/experiment/experiment.hpp"
#include "run/trainers/group_trainer.hpp"
#include "run/trainers/synchronous_trainer.hpp"
#include "run/trainers/training_checks.hpp"
#include "run/trainers/worker_trainer.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {

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

TrainingProblem training_problem(const RunConfig& config, const Graph& graph, std::unique_ptr<Loss> loss,
                                 const Dataset& train) {
  return {.loss = std::move(loss),
          .data = train,
          .normalization = normalization_of(config, train.format(), graph),
          .augment = config.data.augment,
          .seed = static_cast<std::uint64_t>(config.run.seed),
          .length = run_length(config, train.size())};
}

RunTrainer::RunTrainer(const RunConfig& config, const Dataset& train, const Communicator& all) : all_(all) {
  check_training(config, train, all);
  traits_.known_steps = run_length(config, train.size()).steps();
}

void RunTrainer::set_trainer(std::unique_ptr<Trainer> trainer, std::function<double()> exposed) {
  trainer_ = std::move(trainer);
  traits_.states_change_early |= trainer_->strategy().traits().states_change_early;
  trainer_->clock().count_waits_of(
      [this, exposed = std::move(exposed)] { return trainer_->strategy().take_exposed_seconds() + exposed(); });
}

void RunTrainer::require_done(const StepOutcome& outcome) const {
  if (outcome.done()) return;
  throw SeparateStepError(
      ExitStatus::internal,
      fmt::format("{} (found by rank {} in a local step; all other ranks end with it)", outcome.message, all_.rank()));
}

std::unique_ptr<RunTrainer> make_run_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                             const Dataset& train, const Communicator& all) {
  if (config.parallel.has_workers())
    return std::make_unique<WorkerTrainer>(config, std::move(graph), std::move(loss), train, all);
  if (config.parallel.synchronizes_groups())
    return std::make_unique<GroupTrainer>(config, std::move(graph), std::move(loss), train, all);
  return std::make_unique<SynchronousTrainer>(config, std::move(graph), std::move(loss), train, all);
}

std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& ranks) {
  check_training(config, train, ranks);
  RunConfig own = with_chosen_shard(config, graph, train, ranks);
  own.parallel.local = {};
  own.parallel.asynchronous = {};
  own.parallel.backup = {};
  TrainingProblem problem = training_problem(config, graph, std::move(loss), train);
  problem.measured = read_all_reduce_table(config.parallel, ranks);
  return std::make_unique<Trainer>(own, std::move(graph), std::move(problem), ranks);
}

}  // namespace lockstep
