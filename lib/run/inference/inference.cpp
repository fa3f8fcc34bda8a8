// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/inference.hpp"

#include <algorithm>

#include "checkpoint/training_arrays.hpp"
#include "ops/elementwise/copies.hpp"
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

Inference::Inference(const RunConfig& config, Graph graph, const ExampleFormat& format, std::int64_t max_batch)
    : model_(make_model(config, std::move(graph), max_batch, Purpose::inference)),
      uploader_(format, normalization_of(config, format, model_.graph()), config.dtype(), max_batch,
                config.data.augment.for_evaluation()) {}

void Inference::compute(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count,
                        const Tensor& outputs) {
  const PassContext context{.space = space, .training = false, .same_parameters = has_computed_};
  convert(space, model_.forward(context, uploader_.upload(space, batch, first, count).inputs), outputs);
  has_computed_ = true;
}

std::int64_t inference_batch(const RunConfig& config, const Graph& graph) {
  constexpr std::int64_t most = 128, most_numbers = 1 << 18;
  return std::min({most, std::max<std::int64_t>(1, most_numbers / graph.output_shape().count()),
                   config.batch.micro.value_or(most)});
}

}  // namespace lockstep
