// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/prepared_run.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/log.hpp"
#include "base/text_file.hpp"
#include "checkpoint/training_arrays.hpp"
#include "comm/collective/all_reduce_table.hpp"
#include "comm/device_all_reduce.hpp"
#include "parallel/asynchronous/asynchronous_workers.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/batch_feed.hpp"
#include "train/memory_estimate.hpp"

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
  const RankCount ranks{comm.size(), Topology(comm).nodes};
  const DeviceFacts facts = device_facts(comm);
  comm.run_on_root([&] {
    with_positions(config.source, [&] {
      validate_key(
          config.parallel.sharding.machine.empty() || config.shard_times, "parallel.machine",
          "is read only by lockstep train, not in studies or in other programs; leave it out, or name a shard");
      const std::optional<ShardChoice> choice = resolve_shard(
          chosen, graph, memory_estimate(config, graph, train, ranks), ranks, has_whole_sums(config.parallel, facts));
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
                                    config.checkpoint.neighbours_every,
                                    config.parallel.audit_every};
  std::erase(periods, 0);
  return [periods](std::int64_t step) {
    return std::ranges::any_of(periods, [&](std::int64_t period) { return step % period == 0; });
  };
}

/// Throws KeyError if data.sampler does not suit so many ranks.
void check_sampler(const RunConfig& config, int ranks) {
  if (config.data.sampler != DataConfig::SamplerKind::distributed_sampler) return;
  for (const RunLength::Stage& stage : config.batch.stages())
    validate_key(
        stage.batch % ranks == 0, stage.begin.count > 0 ? "batch.ramp" : "batch.global",
        "{} examples cannot be divided evenly among {} ranks (data.sampler: distributed_sampler needs that); use a "
        "multiple of the number of ranks",
        stage.batch, ranks);
}

/// Throws KeyError if batches do not divide into equal parts, which ranks take in an order of their own, or the parts
/// into one equal piece for each member of a worker.
void check_parts(const RunConfig& config, std::int64_t examples, std::int64_t parts_of_batch, std::int64_t members) {
  const std::int64_t batch = config.batch.global, parts = parts_of_batch * members;
  const std::string key = config.parallel.backup.present ? "parallel.backup"
                          : parts_of_batch != config.parallel.asynchronous.collect
                              ? "as in the record"
                              : fmt::format("parallel.asynchronous.collect{}",
                                            members > 1 ? fmt::format(", and {} ranks of a group", members) : "");
  validate_key(config.batch.ramp.empty(), "batch.ramp",
               "makes batches larger, but these ranks take equal parts ({}); leave it out", key);
  validate_key(batch % parts == 0, "batch.global",
               "{} examples cannot be divided into {} equal parts ({}), which ranks take one after another; use a "
               "multiple",
               batch, parts, key);
  validate_key(batch <= examples, "batch.global", "{} examples are more than the {} training examples; use fewer",
               batch, examples);
  validate_key(
      config.data.drop_last || examples % batch == 0, "data.drop_last",
      "is false, and the last batch of an epoch of {} examples has fewer than {} (ranks take equal parts: {}); set "
      "it to true",
      examples, batch, key);
  validate_key(!config.data.augment.mixes(), "data.augment",
               "mixes each image with the next one of the batch, but ranks take parts of a batch ({}); leave mixup "
               "and cutmix out",
               key);
}

}  // namespace

void check_deck(const RunConfig& config, int ranks) {
  with_positions(config.source, [&] {
    check_sampler(config, ranks);
    check_ranks(config, ranks);
  });
}

PushOrder planned_pushes(const RunConfig& config, std::int64_t examples, const Communicator& comm) {
  const AsynchronousConfig& asynchronous = config.parallel.asynchronous;
  if (!asynchronous.present || asynchronous.free) return {};
  const std::int64_t every = config.parallel.steps_of_round();
  const std::int64_t updates = UpdateSteps{every, run_length(config, examples).steps()}.updates();
  std::string text;
  if (!asynchronous.replay.empty()) {
    comm.run_on_root([&] { text = read_text_file(asynchronous.replay); });
    comm.broadcast(text);
  }
  PushOrder pushes;
  comm.run_collectively([&] {
    with_positions(config.source, [&] {
      pushes = asynchronous.replay.empty()
                   ? simulate_pushes(asynchronous, static_cast<std::uint64_t>(config.run.seed), updates, every)
                   : PushOrder::parse(text, asynchronous.replay, asynchronous, updates, every,
                                      config.run.may_end_early() ? PushOrder::Length::may_be_shorter
                                                                 : PushOrder::Length::all_updates);
      if (config.parallel.has_stepping_workers() || pushes.has_parts())
        check_parts(config, examples, pushes.parts_of_batch(), pushes.members());
    });
  });
  return pushes;
}

void check_examples(const RunConfig& config, std::int64_t examples, int ranks) {
  if (config.parallel.runs_freely())
    check_parts(config, examples, config.parallel.parts_of_batch(ranks), config.parallel.asynchronous.members(ranks));
}

std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& comm) {
  comm.run_collectively([&] {
    with_positions(config.source, [&] {
      check_examples(config, train.size(), comm.size());
      const Algorithm* const named = config.parallel.sums.all_reduce;
      validate_key(!named || !named->by_library || !comm.network(), "parallel.all_reduce",
                   "{} cannot be combined with --emulate-network (it sends its messages itself); use another "
                   "algorithm, or leave --emulate-network out",
                   named ? named->name : "");
    });
  });
  const RunLength length = run_length(config, train.size());
  PushOrder pushes = planned_pushes(config, train.size(), comm);
  const std::int64_t known_steps = config.parallel.asynchronous.replay.empty()
                                       ? length.steps()
                                       : UpdateSteps{config.parallel.steps_of_round(), length.steps()}.after(
                                             pushes.updates());
  RunConfig known = config;
  known.parallel.asynchronous.recorded = {pushes.members(), pushes.workers()};
  const RunConfig chosen = with_chosen_shard(known, graph, train, comm);
  return std::make_unique<Trainer>(
      chosen, std::move(graph),
      TrainingProblem{.loss = std::move(loss),
                      .data = train,
                      .normalize = config.data.normalize,
                      .augment = config.data.augment,
                      .seed = static_cast<std::uint64_t>(config.run.seed),
                      .length = length,
                      .measured = read_all_reduce_table(config.parallel, comm),
                      .order = {std::move(pushes), known_steps, syncs(config, train.size())}},
      comm);
}

std::vector<NamedArray> initialize_parameters(const RunConfig& config, Model& model) {
  const ExecSpace space;
  ParameterBuffer& parameters = model.parameters();
  parameters.initialize(space, static_cast<std::uint64_t>(config.run.seed));
  const WeightsConfig& weights = config.model.weights;
  if (!weights.present) return {};
  auto [chosen, texts] = with_positions(config.source, [&] {
    ParameterFile file = read_weights(weights);
    return std::pair(choose_weights(weights, file, model.graph(), parameters.parameters()), std::move(file.texts));
  });
  set_parameters(space, chosen.taken, parameters);
  log("{}", chosen.text);
  warn_of_trained_examples(texts, weights.file, config);
  return std::move(chosen.taken);
}

void initialize_other_ranks(const RunConfig& config, Model& model, std::vector<NamedArray> weights,
                            const Communicator& comm) {
  ParameterBuffer& parameters = model.parameters();
  if (comm.size() == 1 || !parameters.windows().division.values) return;
  const ExecSpace space;
  comm.run_collectively([&] {
    if (!comm.is_root()) parameters.initialize(space, static_cast<std::uint64_t>(config.run.seed));
  });
  weights.resize(static_cast<std::size_t>(comm.from_root(std::ssize(weights))));
  for (NamedArray& array : weights) {  // other ranks have one at a time
    comm.broadcast(array.name);
    array.dtype = static_cast<DType>(comm.from_root(static_cast<std::int64_t>(array.dtype)));
    array.shape = {comm.from_root(array.shape.count())};
    std::shared_ptr<std::byte[]> numbers;
    comm.run_collectively([&] {
      numbers = std::make_shared_for_overwrite<std::byte[]>(array.bytes());
      if (comm.is_root()) std::memcpy(numbers.get(), array.data.get(), array.bytes());
    });
    comm.broadcast(std::span(numbers.get(), array.bytes()));
    array.data = std::move(numbers);
    comm.run_collectively([&] {
      if (!comm.is_root()) set_parameters(space, {array}, parameters);
    });
    array.data = nullptr;
  }
}

PreparedRun::PreparedRun(const RunConfig& deck, const Communicator& ranks)
    : comm(ranks), config(deck), text(agreed_deck(comm, write_config(config))) {
  comm.run_collectively([&] { check_deck(config, comm.size()); });
  const SharedReading reading(comm, config.source);
  Experiment experiment = open_experiment(config, reading);
  data = std::move(experiment.data);
  provenance = lockstep::provenance(comm, data, reading);
  trainer = make_trainer(config, std::move(experiment.graph), std::move(experiment.loss), *data.train, comm);
}

}  // namespace lockstep
