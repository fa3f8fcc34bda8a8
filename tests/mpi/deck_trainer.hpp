// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.hpp"
#include "data/batch/data_loader.hpp"
#include "run/experiment/experiment.hpp"
#include "run/training/prepared_run.hpp"
#include "serial_training.hpp"
#include "support/fixtures.hpp"
#include "train/trainer.hpp"

namespace lockstep::test {

/// A trainer of a deck, fed as a run feeds its own.
struct DeckTrainer : BatchSource {
  /// Collective.
  DeckTrainer(const std::string& deck, const Communicator& comm)
      : config(read_run_config(deck, (folder.path() / "run").string())),
        experiment(open_experiment(config)),
        run_trainer(make_run_trainer(config, std::move(experiment.graph), std::move(experiment.loss), data(), comm)),
        trainer(&run_trainer->trainer()) {
    begin({});
  }

  /// Gives the parameters their first values. Collective over `comm`.
  void initialize(const Communicator& comm) {
    comm.run_collectively([&] { parameters().initialize(ExecSpace(), 5); });
    run_trainer->share_parameters();
  }
  const Dataset& data() const { return *experiment.data.train; }
  ParameterBuffer& parameters() { return trainer->model().parameters(); }
  StepResult step() {
    if (run_trainer->split_if_due()) begin(position);
    return run_trainer->step(*this, {});
  }
  const HostBatch& next() override {
    const HostBatch& batch = *loader->next();
    position = batch.plan.after;
    return batch;
  }
  const HostBatch& part(std::int64_t number) override { return loader->part(number); }
  void skip_to_batch(std::int64_t batches) override { position = loader->position_after(batches); }

  const TemporaryFolder folder;
  const RunConfig config;
  Experiment experiment;  ///< without graph and loss, which the trainer has
  const std::unique_ptr<RunTrainer> run_trainer;
  Trainer* const trainer;  ///< run_trainer's
  SamplerPosition position;
  std::unique_ptr<DataLoader> loader;

 private:
  void begin(const SamplerPosition& at) {
    loader = std::make_unique<DataLoader>(data(),
                                          Sampler({.dataset_size = data().size(),
                                                   .global_batch = config.batch.global,
                                                   .seed = 5,
                                                   .rank = trainer->ranks().rank(),
                                                   .partition = trainer->partition(),
                                                   .part_of = run_trainer->dealing().part_of},
                                                  at),
                                          config.batch.global, AugmentConfig{}, 5);
  }
};

/// All arrays of a checkpoint, parameters before the optimizer's states, on rank 0. Collective.
inline std::vector<std::vector<std::byte>> arrays_of(const Communicator& comm, std::vector<ShardedState> states) {
  CheckpointTransfer numbers(comm, std::move(states));
  std::vector<std::vector<std::byte>> arrays;
  if (!comm.is_root()) {
    numbers.serve();
    return arrays;
  }
  const CheckpointTransfer::Turn turn(numbers);
  source_of(numbers)([&](std::size_t array, std::span<const std::byte> next) {
    arrays.resize(std::max(arrays.size(), array + 1));
    arrays[array].insert(arrays[array].end(), next.begin(), next.end());
  });
  return arrays;
}

}  // namespace lockstep::test
