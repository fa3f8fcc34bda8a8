// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/predictor.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset/dataset.hpp"
#include "io/array_file.hpp"
#include "io/output_file.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "train/evaluator.hpp"
#include "train/guard/nonfinite_report.hpp"

namespace lockstep {
namespace {

/// Opens a split of the deck's data, or of another file.
std::unique_ptr<Dataset> open_split(const RunConfig& config, const EvaluationData& what, const SharedReading& reading) {
  if (!what.place.empty()) {
    const std::optional<ExampleFormat> known = known_format(config.data);
    const bool tokens = known && known->has_tokens();
    return open_examples(what.place, "/" + what.split, tokens ? std::optional(known->input_shape[0]) : std::nullopt,
                         reading, config.data.external());
  }
  Datasets data = open_datasets(config.data, static_cast<std::uint64_t>(config.run.seed), reading);
  auto& split = what.split == "train" ? data.train : what.split == "test" ? data.test : data.validation;
  reading.run_collectively([&] {
    validate(
        what.split == "train" || what.split == "validation" || what.split == "test", ExitStatus::bad_usage,
        "--split {}: the deck's data are split into train, validation and test; choose one of these, or name a file with --data",
        what.split);
    validate(split != nullptr, ExitStatus::bad_data,
             "{}: there are no {} examples; give some (data.{}_file), or name others with --data FILE",
             data.train->description(), what.split, what.split);
  });
  return std::move(split);
}

/// Returns the files that an evaluation may read: the one with its parameters, `what.place`, and those of the deck.
std::vector<std::string> files_read(const RunConfig& config, const std::string& parameters,
                                    const EvaluationData& what) {
  std::vector<std::string> files{parameters};
  for (const std::string* place :
       {&what.place, &config.data.file, &config.data.validation_file, &config.data.test_file})
    files.push_back(DataPlace::of(*place).file);
  return files;
}

/// Throws because the loss over `data` is not finite, and names the first examples that are not.
[[noreturn]] void refuse_loss(const Dataset& data, double loss) {
  constexpr std::size_t most = 10;
  const ExampleFormat& format = data.format();
  std::vector<std::byte> input(format.input_bytes()), target(format.target_bytes());
  std::vector<std::int64_t> found;
  for (std::int64_t example = 0; example < data.size() && found.size() < most; ++example) {
    data.read({&example, 1}, input.data(), target.data());
    if (count_nonfinite(input.data(), format.input_dtype, format.input_shape.count()) > 0 ||
        count_nonfinite(target.data(), format.target_dtype, format.target_shape.count()) > 0)
      found.push_back(data.number_in_file(example));
  }
  validate(found.empty(), ExitStatus::bad_data,
           "{}: the loss is {}, because inputs or targets are not finite (examples {}{}); correct these, or leave them "
           "out; `lockstep check --data` finds all of them",
           data.description(), loss, fmt::join(found, ", "), found.size() == most ? ", …" : "");
  throw Error(ExitStatus::internal,
              fmt::format("{}: the loss is {}, although all inputs and targets are finite: outputs of the network are "
                          "not; use a checkpoint from before it diverged, or compute in fp32",
                          data.description(), loss));
}

}  // namespace

Metrics evaluate_file(const RunConfig& config, const std::string& file, const EvaluationData& what,
                      const Communicator& comm) {
  comm.run_on_root([&] {
    if (what.confusion_matrix.empty()) return;
    ArrayFile::require_kind(what.confusion_matrix);
    check_output(what.confusion_matrix, what.overwrite, files_read(config, file, what));
  });
  const SharedReading reading(comm, config.source);
  std::unique_ptr<Dataset> data = with_positions(config.source, [&] { return open_split(config, what, reading); });
  const ExecSpace space;
  std::unique_ptr<Loss> loss;
  std::optional<Model> model;
  std::optional<BatchUploader> uploader;
  std::optional<MetricSums> sums;
  std::int64_t batch = 0;
  reading.run_collectively([&] {
    ParameterFile stored;
    if (comm.is_root()) {
      stored = read_parameters(file);
      check_vocabulary(*data, stored.vocabulary(), file);
      if (const auto provenance = stored.texts.find("provenance"); provenance != stored.texts.end())
        warn_of_other_input_type(*data, provenance->second, file);
      warn_of_other_network(stored.texts, file, config);
    }
    Graph graph = make_graph(config, data->format());
    loss = config.loss.make();
    with_positions(config.source, [&] { check_metrics(config.metrics, *loss); });
    check_examples(*data, config.data.augment, graph, *loss);
    const Normalization normalization = normalization_of(config, data->format(), graph);
    batch = std::min(share_of(config.batch.largest(), 0, comm.size()).count, data->size());
    batch = std::min(config.batch.micro.value_or(batch), batch);
    model.emplace(make_model(config, std::move(graph), batch, Purpose::inference));
    if (comm.is_root()) load_parameters(space, config.model.weights, file, stored, model->graph(), model->parameters());
    uploader.emplace(data->format(), normalization, config.dtype(), batch, config.data.augment.for_evaluation());
    sums.emplace(batch, model->graph().output_shape(), config.metrics, loss->ignored_class());
    if (!what.confusion_matrix.empty()) {
      constexpr std::int64_t most = 10000;
      const std::int64_t classes = loss->wants_classes() ? model->graph().output_shape()[-1] : 0;
      validate(classes > 0 && classes <= most, ExitStatus::bad_usage,
               "--confusion-matrix: needs 1 to {} classes (this network has {}); leave it out", most, classes);
      sums->count_confusions();
    }
  });
  comm.broadcast(space, model->parameters().values());
  model->parameters().round(space);
  Metrics metrics = Evaluator(comm, {*model, *loss, *uploader, *sums}, batch).evaluate(*data).value();
  comm.run_on_root([&] {
    if (metrics.has_loss && !std::isfinite(metrics.loss)) refuse_loss(*data, metrics.loss);
    if (what.confusion_matrix.empty()) return;
    const std::int64_t classes = model->graph().output_shape()[-1];
    ArrayFile matrix(what.confusion_matrix, "class", DType::f64, {classes, classes});
    matrix.append(metrics.confusions.data(), classes);
    matrix.commit();
  });
  return metrics;
}

}  // namespace lockstep
