// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/prepared_run.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/log.hpp"
#include "base/text_file.hpp"
#include "checkpoint/training_arrays.hpp"
#include "parallel/asynchronous/asynchronous_workers.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/batch_feed.hpp"
#include "run/training/resume.hpp"

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

void initialize_on_all_ranks(const RunConfig& config, Model& model, const Communicator& comm) {
  std::vector<NamedArray> weights;
  comm.run_on_root([&] { weights = initialize_parameters(config, model); });
  initialize_other_ranks(config, model, std::move(weights), comm);
}

PreparedRun::PreparedRun(const RunConfig& deck, const Communicator& ranks)
    : comm(ranks), config(deck), text(agreed_deck(comm, write_config(config))) {
  comm.run_collectively([&] { check_deck(config, comm.size()); });
  const SharedReading reading(comm, config.source);
  Experiment experiment = open_experiment(config, reading);
  data = std::move(experiment.data);
  provenance = lockstep::provenance(comm, data, reading);
  training = std::make_unique<GroupTrainer>(config, std::move(experiment.graph), std::move(experiment.loss),
                                            *data.train, comm);
  partition = trainer().partition();
  if (training->groups() > 1) partition = batch_partition(config, trainer().model().graph(), comm.size());
}

}  // namespace lockstep
