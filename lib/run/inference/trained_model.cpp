// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/trained_model.hpp"

#include "checkpoint/training_arrays.hpp"
#include "run/experiment/provenance.hpp"

namespace lockstep {

TrainedModel TrainedModel::read(const std::string& file) {
  TrainedModel trained{.name = file, .file = read_parameters(file)};
  const auto deck = trained.file.texts.find("deck");
  validate(deck != trained.file.texts.end(), ExitStatus::bad_data,
           "{}: holds no deck to say which network its parameters belong to; give a checkpoint of a run", file);
  trained.deck = deck->second;
  if (const auto found = trained.file.texts.find("provenance"); found != trained.file.texts.end())
    trained.provenance = found->second;
  trained.config = read_run_config(parse_deck(trained.deck, file + ":/deck"));
  return trained;
}

void TrainedModel::share(const Communicator& comm) {
  comm.broadcast(name);
  comm.broadcast(deck);
  comm.broadcast(provenance);
  comm.run_collectively([&] {
    if (!comm.is_root()) config = read_run_config(parse_deck(deck, name + ":/deck"));
  });
}

std::optional<ExampleFormat> TrainedModel::inputs() const {
  const std::optional<ExampleFormat> known = known_format(config.data);
  return known ? known : stored_inputs(provenance);
}

void TrainedModel::load(Model& model) const { restore_parameters(ExecSpace(), file.arrays, name, model.parameters()); }

void TrainedModel::load(const Communicator& comm, Model& model) const {
  const ExecSpace space;
  comm.run_on_root([&] { load(model); });
  comm.broadcast(space, model.parameters().values());
  model.parameters().round(space);
}

}  // namespace lockstep
