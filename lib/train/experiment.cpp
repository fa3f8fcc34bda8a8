// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/experiment.hpp"

#include <optional>

#include "train/run_state.hpp"

namespace lockstep {
namespace {

void check_inputs(const Dataset& data, const Shape& wanted) {
  const Shape& given = data.format().input_shape;
  validate(given == wanted, ExitStatus::bad_data,
           "{}: its examples are {}, but the model reads {} (model.input); use other data, or set model.input",
           data.description(), to_string(given), to_string(wanted));
}

void check_targets(const Dataset& data, const Loss& loss, const Shape& output) {
  const ExampleFormat& format = data.format();
  validate_key(output.rank() == 1, "model", "its output is {} (the loss reads vectors); end with a flatten or linear layer",
               to_string(output));
  if (loss.wants_classes()) {
    validate(format.has_classes(), ExitStatus::bad_data,
             "{}: its targets are values, but loss cross_entropy reads classes; use loss: {{type: mse}}, or other data",
             data.description());
    data.check_classes(output[0]);
  } else {
    validate(!format.has_classes(), ExitStatus::bad_data,
             "{}: its targets are classes, but loss mse reads values; use loss: {{type: cross_entropy}}, or other data",
             data.description());
    validate(format.target_shape == output, ExitStatus::bad_data,
             "{}: its targets are {} values each, but the model's output is {}; change the last layer",
             data.description(), to_string(format.target_shape), to_string(output));
  }
}

Experiment open(const RunConfig& config) {
  Datasets data = open_datasets(config.data, static_cast<std::uint64_t>(config.run.seed));
  const Shape input = config.model.input.empty() ? data.train->format().input_shape : Shape(std::span(config.model.input));
  Graph graph(config.model.resolved_layers(), input);
  std::unique_ptr<Loss> loss = config.loss.make();
  for (const Dataset* split : {data.train.get(), data.validation.get()})
    if (split) {
      check_inputs(*split, input);
      check_targets(*split, *loss, graph.output_shape());
    }
  const ExampleFormat& format = data.train->format();
  check_normalize(format, config.data.normalize);
  check_augment(format, config.data.augment);
  validate_key(!config.run.has_target || data.validation, "run.target", "there are no validation examples to reach it on; remove it, or give some");
  validate_key(!config.run.has_target || loss->wants_classes() || config.run.target_metric == RunOptions::Metric::validation_loss,
               "run.target.metric", "loss mse has no accuracy; use validation_loss");
  validate_key(!config.data.drop_last || config.batch.global <= data.train->size(), "batch.global",
               "{} examples are more than the {} there are (data.drop_last then leaves nothing); use fewer",
               config.batch.global, data.train->size());
  return {std::move(data), std::move(graph), std::move(loss)};
}

}  // namespace

Experiment open_experiment(const RunConfig& config) {
  return with_positions(config.source, [&] { return open(config); });
}

Model make_model(const RunConfig& config, Graph graph, std::int64_t max_batch, Purpose purpose) {
  return with_positions(config.source, [&] {
    return Model(std::move(graph), {.dtype = config.dtype(), .providers = config.providers, .max_batch = max_batch, .purpose = purpose});
  });
}

Metrics evaluate_file(const RunConfig& config, const std::string& file, const Communicator& comm) {
  const ExecSpace space;
  Datasets data;
  std::unique_ptr<Loss> loss;
  std::optional<Model> model;
  std::optional<BatchUploader> uploader;
  std::optional<MetricSums> sums;
  std::int64_t batch = 0;
  comm.together([&] {
    Experiment experiment = open_experiment(config);
    data = std::move(experiment.data);
    loss = std::move(experiment.loss);
    validate(data.validation != nullptr, ExitStatus::bad_data,
             "{}: there are no validation examples; import them with --validation N", data.train->description());
    batch = std::min(share_of(config.batch.global, 0, comm.size()).count, data.validation->size());
    batch = std::min(config.batch.micro.value_or(batch), batch);
    model.emplace(make_model(config, std::move(experiment.graph), batch, Purpose::inference));
    const ParameterBuffer& parameters = model->parameters();
    restore_parameters(space, read_parameters(file), "/model", file, parameters, parameters.values());
    uploader.emplace(data.validation->format(), config.data.normalize, config.dtype(), batch);
    sums.emplace(batch);
  });
  return evaluate(space, comm, *model, *loss, *data.validation, *uploader, *sums, batch);
}

}  // namespace lockstep
