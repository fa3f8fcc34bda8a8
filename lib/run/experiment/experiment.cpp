// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/experiment/experiment.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "data/augment.hpp"
#include "data/batch/upload.hpp"
#include "data/dataset/stored_examples.hpp"

namespace lockstep {
namespace {

void check_shape(const Dataset& data, const AugmentConfig& augment, const Shape& wanted) {
  const Shape given = augment.input_shape(data.format());
  const bool no_channels = given.rank() == 2 && wanted.rank() == 3;
  const bool of_tokens = data.format().has_tokens() && given.rank() == 1 && wanted.rank() == 1;
  validate(given == wanted, ExitStatus::bad_data, "{}: its examples are {}, but the model reads {} (model.input); {}",
           data.description(), to_string(given), to_string(wanted),
           no_channels ? "store images as N×H×W×C, with C = 1 for greyscale"
           : of_tokens ? fmt::format("set model.sequence: {} (of a preset), or the data's sequence_length: {}",
                                     given[0], wanted[0])
                       : "use other data, or set model.input");
}

/// Throws unless the layers that read the data read tokens exactly where the data hold tokens.
void check_tokens(const Dataset& data, const Graph& graph) {
  const bool tokens = data.format().has_tokens();
  for (const GraphNode& node : graph.nodes()) {
    if (std::find(node.inputs.begin(), node.inputs.end(), GraphNode::data) == node.inputs.end()) continue;
    const std::int64_t words = node.layer->traits().vocabulary;
    validate_key(!tokens || words > 0, "model", "layer '{}' reads numbers ({} holds tokens); begin with an embedding",
                 node.name, data.description());
    validate(tokens || words == 0, ExitStatus::bad_data,
             "{}: holds no tokens, but layer '{}' reads them; use data with tokens (`lockstep import text`), or begin "
             "with another layer",
             data.description(), node.name);
    if (tokens) data.check_tokens(words);
  }
}

/// Throws KeyError if `dtype` rounds row numbers that layers look up in tables: 16-bit types round large whole numbers.
void check_row_numbers(const Graph& graph, DType dtype) {
  if (!is_16_bit_type(dtype)) return;
  const std::int64_t exact = dtype == DType::bf16 ? 256 : 2048;  // whole numbers up to this one are exact
  for (const GraphNode& node : graph.nodes())
    for (const std::int64_t rows : node.layer->traits().tables)
      validate_key(rows - 1 <= exact, "precision.compute",
                   "{} rounds row numbers of a table with {} rows in layer '{}' (it is exact up to {}); use fp32",
                   name_of(dtype), rows, node.name, exact);
}

/// Throws unless the targets fit the output: one for each token of a sequence, for each place of an image, else for
/// each example.
void check_targets(const Dataset& data, const Loss& loss, const Shape& output) {
  const ExampleFormat& format = data.format();
  const Shape& target = format.target_shape;
  if (format.has_tokens()) {
    validate_key(loss.wants_classes(), "loss.type", "it reads values ({} holds tokens); use cross_entropy",
                 data.description());
    validate_key(output.rank() == 2 && output[0] == target[0], "model",
                 "its output is {} (each of the {} tokens needs a vector); end with a linear layer", to_string(output),
                 target[0]);
    data.check_classes(output[1], loss.ignored_class());
    return;
  }
  const bool of_vectors = target.rank() == (format.has_classes() ? 0 : 1);
  validate_key(!of_vectors || output.rank() == 1, "model",
               "its output is {} (targets of {} need a vector); end with a flatten or linear layer", to_string(output),
               data.description());
  if (loss.wants_classes()) {
    const bool one_hot = target.rank() == 1 && output.rank() == 1 && target == output;
    const std::string_view one_hot_advice = one_hot ? "; if they are one-hot, store labels.argmax(axis=1)" : "";
    validate(format.has_classes(), ExitStatus::bad_data,
             "{}: its targets are values, but loss cross_entropy reads classes; use a loss for values, such as loss: "
             "{{type: mse}}, or store classes as N integers: labels.astype(\"i4\"){}",
             data.description(), one_hot_advice);
    const Shape places(output.extents().first(static_cast<std::size_t>(std::max(output.rank() - 1, 0))));
    validate(places == target, ExitStatus::bad_data,
             "{}: its targets are {} classes each, but the model's output is {} (it must be {}×classes); change the "
             "model{}",
             data.description(), to_string(target), to_string(output), to_string(target), one_hot_advice);
    data.check_classes(output[-1], loss.ignored_class());
  } else {
    validate(!format.has_classes(), ExitStatus::bad_data,
             "{}: its targets are classes, but this loss reads values; use loss: {{type: cross_entropy}}, or store f32 "
             "targets",
             data.description());
    validate(target == output, ExitStatus::bad_data,
             "{}: its targets are {} values each, but the model's output is {}; change the last layer",
             data.description(), to_string(target), to_string(output));
    if (const std::optional<Range> range = loss.target_range()) data.check_values(range->min, range->max);
  }
}

/// Warns if classes of the training examples are missing from another split, or the other way round.
void compare_classes_of_splits(const Datasets& data) {
  const auto classes_of = [](const Dataset& split) {
    std::set<std::int64_t> classes;
    for (std::int64_t i = 0; i < split.size(); ++i) {
      const std::optional<std::int32_t> number = split.class_of(i);
      if (!number) break;
      classes.insert(*number);
    }
    return classes;
  };
  if (data.train->is_computed() || !data.train->class_of(0)) return;
  const std::set<std::int64_t> train = classes_of(*data.train);
  for (const Dataset* other : {data.validation.get(), data.test.get()})
    if (other) warn_of_missing_classes(train, data.train->description(), classes_of(*other), other->description());
}

/// Throws unless the data, the network and the loss that a deck asks for suit each other.
void check_experiment(const RunConfig& config, const Datasets& data, const Graph& graph, const Loss& loss) {
  for (const Dataset* split : {data.train.get(), data.validation.get(), data.test.get()})
    if (split) check_examples(*split, config.data.augment, graph, loss);
  const ExampleFormat& format = data.train->format();
  normalization_of(config, format, graph);  // throws if the deck does not suit the format
  check_augment(format, config.data.augment);
  const auto& [target, patience, keep_best] = config.selection();
  const auto check_selection = [&](const auto& options, const std::string& key) {
    validate_key(!options.present || data.validation, key,
                 "needs validation examples, and there are none; remove it, or give some");
    if (!options.present) return;
    const std::string_view name = options.metric.name();
    validate_key(name != "accuracy" || loss.wants_classes(), key + ".metric",
                 "this loss has no accuracy; use validation_loss");
    validate_key(find_metric(name) == nullptr || std::ranges::find(config.metrics, name) != config.metrics.end(),
                 key + ".metric", "evaluations of this deck do not compute {}; add it to metrics", name);
  };
  check_metrics(config.metrics, loss);
  check_selection(target, "run.target");
  check_selection(patience, "run.patience");
  check_selection(keep_best, "checkpoint.keep_best");
  // Each of these throws if the deck does not suit the data or the network.
  if (config.data.sampler != DataConfig::SamplerKind::permutation)
    sampling_of(config.data, *data.train, 1, 0, loss.ignored_class());
  ParameterLayout layout(graph.layer_specs(), config.dtype());
  layout.own({});  // without owned parameters, groups list no blocks, of which a large model has many
  config.optimizer.groups(layout);
  LearningRateSchedule(config.schedule, run_length(config, data.train->size()));
  validate_key(graph.parameter_count() > 0, "model.layers",
               "has no layer with parameters (nothing would be trained); give one, such as {{linear: {{features: "
               "{}}}}}",
               graph.output_shape()[-1]);
}

/// The fewest examples of which a batch norm takes mean and variance together in a step of `batch` examples, if groups
/// of `together` ranks share them.
std::int64_t fewest_in_statistics(const BatchPartition& partition, std::int64_t batch, int together) {
  std::int64_t fewest = batch;
  for (int first = 0; first < partition.ranks; first += together) {
    std::vector<std::int64_t> counts;  // of each micro-batch
    for (int rank = first; rank < std::min<std::int64_t>(first + together, partition.ranks); ++rank) {
      const std::vector<MicroBatch> micro_batches = micro_batches_of(partition, batch, rank);
      counts.resize(std::max(counts.size(), micro_batches.size()));
      for (std::size_t i = 0; i < micro_batches.size(); ++i) counts[i] += micro_batches[i].count;
    }
    for (const std::int64_t count : counts)
      if (count > 0) fewest = std::min(fewest, count);
  }
  return fewest;
}

/// Returns the smallest last batch of an epoch; empty if the run completes none.
std::optional<std::int64_t> smallest_last_batch(const RunLength& length, std::int64_t ramp_ends) {
  const auto examples_before = [&](std::int64_t step) {
    return length.point_of({static_cast<double>(step), TrainingSpan::Unit::steps}).examples;
  };
  std::optional<std::int64_t> smallest;
  for (double epoch = 1;; ++epoch) {
    const std::int64_t end = length.step_of({epoch, TrainingSpan::Unit::epochs});
    if (end > length.steps()) return smallest;
    const std::int64_t last = examples_before(end) - examples_before(end - 1);
    smallest = std::min(smallest.value_or(last), last);
    if (length.step_of({epoch - 1, TrainingSpan::Unit::epochs}) >= ramp_ends) return smallest;  // the others are alike
  }
}

/// Returns warnings if a layer gets only a few values per channel of which it takes mean and variance: in a step of
/// `batch` examples, or in the last step of an epoch.
std::vector<std::string> remarks_on_norms(const RunConfig& config, const Graph& graph, const BatchPartition& partition,
                                          std::int64_t batch, std::optional<std::int64_t> last_batch) {
  constexpr std::int64_t enough = 8;
  const GraphNode* norm = nullptr;  // the one with the fewest positions
  for (const GraphNode& node : graph.nodes())
    if (node.layer->traits().needs_statistics && (!norm || node.shape.rows() < norm->shape.rows())) norm = &node;
  if (!norm) return {};
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t ranks = parallel.local.present ? parallel.local.group.value_or(partition.ranks) : partition.ranks;
  const int together = parallel.ranks_of_statistics(static_cast<int>(ranks));
  std::vector<std::string> remarks;
  std::int64_t fewest = enough;
  const auto add_for = [&](std::int64_t examples, std::string_view when, std::string_view remedy) {
    const std::int64_t values = norm->shape.rows() * fewest_in_statistics(partition, examples, together);
    if (values >= fewest) return;
    fewest = values;
    remarks.push_back(
        fmt::format("model: layer '{}' takes mean and variance of {} per channel{}, {}; {}, or use layer_norm",
                    norm->name, values == 1 ? "one value" : fmt::format("only {} values", values), when,
                    values == 1 ? "so that its output in training does not depend on its input"
                                : "which are far from those of all examples",
                    remedy));
  };
  add_for(batch, "",
          "give it more examples at once (a larger batch.micro or batch.global, fewer ranks or shards, or "
          "parallel.sync_batch_norm: true)");
  if (last_batch)
    add_for(*last_batch, fmt::format(" in the last step of an epoch, of {}", counted(*last_batch, "example")),
            "set data.drop_last: true, or a batch.global that leaves more examples for that step");
  return remarks;
}

}  // namespace

std::int64_t vocabulary_of(const Graph& graph) {
  std::int64_t words = 0;
  for (const GraphNode& node : graph.nodes()) {
    const std::int64_t known = node.layer->traits().vocabulary;
    if (known > 0) words = words > 0 ? std::min(words, known) : known;
  }
  return words;
}

void check_inputs(const Dataset& data, const AugmentConfig& augment, const Graph& graph) {
  check_shape(data, augment, graph.input_shape());
  check_tokens(data, graph);
}

void check_examples(const Dataset& data, const AugmentConfig& augment, const Graph& graph, const Loss& loss) {
  check_inputs(data, augment, graph);
  loss.check_output(graph.output_shape());
  check_targets(data, loss, graph.output_shape());
}

void check_metrics(std::span<const std::string> names, const Loss& loss) {
  const bool classes = loss.wants_classes();
  for (const std::string& name : names) {
    const MetricKind& kind = *find_metric(name);
    validate_key(kind.of_classes == classes, "metrics", "{} is a metric of {}, but this loss reads {}; remove it", name,
                 classes ? "values" : "classes", classes ? "classes" : "values");
  }
}

std::vector<std::string> metric_remarks(std::span<const std::string> names, const Shape& output) {
  std::vector<std::string> remarks;
  for (const std::string& name : names)
    if (output[-1] < find_metric(name)->least_outputs)
      remarks.push_back(
          fmt::format("metrics: {} is always the same with {}; leave it out", name, counted(output[-1], "output")));
  return remarks;
}

Experiment open_experiment(const RunConfig& config, const SharedReading& reading) {
  return with_positions(config.source, [&] {
    Datasets data = open_datasets(config.data, static_cast<std::uint64_t>(config.run.seed), reading);
    warn_of_channels_first(data.train->format().input_shape, data.train->description());
    std::optional<Graph> graph;
    std::unique_ptr<Loss> loss;
    reading.run_collectively([&] {
      graph.emplace(make_graph(config, data.train->format()));
      loss = config.loss.make();
      check_experiment(config, data, *graph, *loss);
      if (!reading.is_root()) return;
      warn_of_units(config.data, *data.train, normalization_of(config, data.train->format(), *graph));
      compare_classes_of_splits(data);
    });
    return Experiment{std::move(data), std::move(*graph), std::move(loss)};
  });
}

Graph make_graph(const RunConfig& config, const ExampleFormat& format) {
  Graph graph(config.model.resolved_layers(), config.model.input.empty() ? config.data.augment.input_shape(format)
                                                                         : Shape(std::span(config.model.input)));
  graph.freeze(config.model.weights.freeze, "model.weights.freeze");
  check_row_numbers(graph, config.dtype());
  return graph;
}

std::string batch_text(const RunConfig& config, const BatchPartition& partition, std::int64_t examples) {
  const std::int64_t batch = std::min(config.batch.largest(), examples);
  const std::int64_t most = partition.largest_share(batch), least = partition.smallest_share(batch);
  const ParallelConfig& parallel = config.parallel;
  std::string parts = counted(partition.ranks, "rank");
  if (parallel.has_workers()) {
    const std::int64_t gradients = parallel.asynchronous.present ? parallel.asynchronous.collect : partition.ranks;
    parts = counted(gradients, "gradient");
    if (partition.ranks > gradients) parts += " × " + counted(partition.ranks / gradients, "rank");
    if (parallel.backup.present && parallel.backup.mode == BackupConfig::Mode::drop)
      parts += fmt::format(" (of which {} count)", gradients - parallel.backup.ranks);
  }
  return fmt::format("batch {} = {} × {}{}{}", batch, parts,
                     least == most       ? ""
                     : least + 1 == most ? fmt::format("{} or ", least)
                                         : fmt::format("{} to ", least),
                     most, partition.share_limit > 1 ? fmt::format(" (by speed up to {})", partition.room(batch)) : "");
}

std::vector<std::string> run_remarks(const RunConfig& config, const Graph& graph, const BatchPartition& partition,
                                     std::int64_t examples) {
  std::vector<std::string> remarks = config.parallel.remarks();
  const RunLength length = run_length(config, examples);
  std::vector<RunLength::Stage> stages = config.batch.stages();
  const auto never = std::ranges::find_if(stages, [&](const RunLength::Stage& stage) {
    return stage.begin.count > 0 && length.step_of(stage.begin) >= length.steps();
  });
  if (never != stages.end())
    remarks.push_back(fmt::format(
        "batch.ramp: the run ends after {} steps, before batches of {} begin (after {}); make it longer, or "
        "remove that point",
        length.steps(), never->batch, config.batch.ramp[static_cast<std::size_t>(never - stages.begin()) - 1].first));
  stages.erase(never, stages.end());
  const std::int64_t largest = std::ranges::max(stages, {}, &RunLength::Stage::batch).batch;
  if (examples < largest)
    remarks.push_back(
        fmt::format("batch.{}: {} examples are more than the {} training examples; each step takes all of them",
                    config.batch.ramp.empty() ? "global" : "ramp", largest, examples));
  const std::int64_t batch = std::min(examples, std::ranges::min(stages, {}, &RunLength::Stage::batch).batch);
  std::int64_t idle = 0;
  while (idle < partition.ranks && share_of(partition, batch, static_cast<int>(partition.ranks - idle - 1)).count == 0)
    ++idle;
  if (idle > 0)
    remarks.push_back(
        fmt::format("{} of {} ranks have no examples in a step of {}; use fewer ranks, or a larger batch.global", idle,
                    partition.ranks, batch));
  if (const std::int64_t warmup = length.step_of(training_span_of(config.schedule.warmup)); warmup > length.steps())
    remarks.push_back(
        fmt::format("schedule.warmup: {} steps are more than the {} of the run, which ends before the learning rate "
                    "reaches its value; make it shorter",
                    warmup, length.steps()));
  const std::int64_t ramp_ends = length.step_of(stages.back().begin);
  std::ranges::move(remarks_on_norms(config, graph, partition, batch, smallest_last_batch(length, ramp_ends)),
                    std::back_inserter(remarks));
  const GraphNode& last = graph.nodes().back();
  const auto has_its_own = [&](std::string_view type, std::string_view loss, std::string_view afterwards) {
    if (last.layer->type() == type && config.loss.type == loss)
      remarks.push_back(
          fmt::format("model: its last layer '{}' is a {}, but loss {} applies its own (such networks learn badly); "
                      "remove that layer ({})",
                      last.name, type, loss, afterwards));
  };
  std::ranges::move(metric_remarks(config.metrics, graph.output_shape()), std::back_inserter(remarks));
  has_its_own("softmax", "cross_entropy", "predict --probabilities applies one");
  has_its_own("sigmoid", "binary_cross_entropy", "predict then gives logits, whose sigmoids are the probabilities");
  return remarks;
}

std::optional<std::string> remark_on_parts(const ParallelConfig& config, double largest, double mean) {
  constexpr double noticeable = 1.25, noticeable_numbers = 1e6;
  if (largest < noticeable * mean || largest - mean < noticeable_numbers) return std::nullopt;
  return fmt::format(
      "parallel.shard: one rank owns {:.1f} times as much of the model as ranks do on average, because buckets of {:g} "
      "MB have too few blocks (of {} numbers) for so many ranks; divide it among fewer (parallel.shard_group), or give "
      "a larger parallel.bucket_mb and unit_mb",
      largest / mean, config.sums.bucket_mb, array_block);
}

}  // namespace lockstep
