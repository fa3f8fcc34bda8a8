// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/trainers/training_checks.hpp"

#include <fmt/format.h>

#include <string>

#include "base/text_file.hpp"
#include "config/deck.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {
namespace {

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

/// Throws KeyError if batches have fewer examples than an update has gradients.
void check_collect(const RunConfig& config) {
  const std::int64_t collect = config.parallel.asynchronous.present ? config.parallel.asynchronous.collect : 1;
  for (const RunLength::Stage& stage : config.batch.stages())
    validate_key(stage.batch >= collect, stage.begin.count > 0 ? "batch.ramp" : "batch.global",
                 "{} examples cannot be divided into {} gradients (parallel.asynchronous.collect); use more examples",
                 stage.batch, collect);
}

}  // namespace

void check_deck(const RunConfig& config, int ranks) {
  with_positions(config.source, [&] {
    check_sampler(config, ranks);
    check_collect(config);
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

BatchPartition check_step(const RunConfig& config, Graph& graph, const Dataset& train, const Topology& ranks) {
  BatchPartition partition;
  ranks.all.run_collectively([&] {
    with_positions(config.source, [&] {
      partition = batch_partition(config, graph, ranks.all.size());
      const RankCount count{ranks.all.size(), ranks.nodes};
      if (config.parallel.sharding.memory_gb > 0)
        check_memory(config, graph, memory_estimate(config, graph, train, count), count);
    });
  });
  return partition;
}

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

}  // namespace lockstep
