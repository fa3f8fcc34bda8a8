// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/prepared_run.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/log.hpp"
#include "checkpoint/training_arrays.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/trainers/training_checks.hpp"
#include "run/training/resume.hpp"

namespace lockstep {

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
  training = make_run_trainer(config, std::move(experiment.graph), std::move(experiment.loss), *data.train, comm);
  partition = training->partition();
}

}  // namespace lockstep
