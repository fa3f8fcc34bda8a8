// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/data_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <tuple>

#include "base/error.hpp"
#include "data/dataset/dataset.hpp"
#include "data/dataset/hdf5_dataset.hpp"
#include "data/dataset/synthetic.hpp"
#include "data/dataset/token_dataset.hpp"

namespace lockstep {
namespace {

std::string format_text(const ExampleFormat& format) {
  if (format.has_tokens()) return fmt::format("sequences of {} tokens", to_string(format.input_shape));
  return fmt::format(
      "inputs {} {}, targets {} {}", to_string(format.input_shape), name_of(format.input_dtype),
      format.has_classes() && format.target_shape.rank() == 0 ? "classes" : to_string(format.target_shape),
      name_of(format.target_dtype));
}

/// Returns the groups that hold examples: "/train", "/validation"; "" for the file itself.
std::vector<std::string> groups_of(const Hdf5File& file) {
  std::vector<std::string> groups;
  for (const std::string& name : file.datasets())
    for (const char* of_examples : {"/inputs", "/tokens"})
      if (name.ends_with(of_examples)) groups.push_back(name.substr(0, name.rfind('/')));
  return groups;
}

std::string listed(const std::vector<std::string>& groups) {
  std::string text;
  for (const std::string& group : groups)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", group.empty() ? "/" : group);
  return text;
}

/// Says what a file has instead of what is wanted: "; it has /x, /y".
std::string found_in(const Hdf5File& file) {
  constexpr std::size_t most = 5;
  const std::vector<std::string> names = file.datasets();
  if (file.has("/model")) return "; it has the parameters of a model";
  if (names.empty()) return "; it has no datasets";
  return fmt::format("; it has {}{}", fmt::join(names | std::views::take(most), ", "),
                     names.size() > most ? ", …" : "");
}

/// Returns the group of `place`, or else `preferred`, or else the only group with examples.
std::string group_in(const Hdf5File& file, const DataPlace& place, const std::string& preferred) {
  const bool has_it = file.has(place.group + "/inputs") || file.has(place.group + "/tokens");  // also through links
  if (!place.group.empty() && has_it) return place.group;
  const std::vector<std::string> groups = groups_of(file);
  validate(!groups.empty(), ExitStatus::bad_data,
           "{}: is not a dataset (it has neither inputs nor tokens anywhere{}); store them under these names, with "
           "h5py or `lockstep import`, or, for predictions, name a dataset of inputs alone, as {}:/DATASET",
           file.name(), found_in(file), file.name());
  const auto is_there = [&](const std::string& group) { return std::ranges::count(groups, group) > 0; };
  if (!place.group.empty()) {
    validate(is_there(place.group), ExitStatus::bad_data,
             "{}: has no examples in {} (it has some in {}); name one of these", file.name(), place.group,
             listed(groups));
    return place.group;
  }
  if (is_there(preferred)) return preferred;
  validate(groups.size() == 1, ExitStatus::bad_data,
           "{}: has examples in {}, but none in {}; say which to use, as {}:{}", file.name(), listed(groups), preferred,
           file.name(), groups.front());
  return groups.front();
}

/// Opens a file on every rank. Throws on all ranks if one of them cannot open it.
std::shared_ptr<const Hdf5File> open_file(const std::string& path, const SharedReading& reading) {
  std::shared_ptr<const Hdf5File> file;
  reading.run_collectively([&] { file = std::make_shared<const Hdf5File>(Hdf5File::open(path)); });
  return file;
}

/// Opens the examples in a group. Null if there are none.
std::unique_ptr<Dataset> open_group(const std::shared_ptr<const Hdf5File>& file, const std::string& group,
                                    std::optional<std::int64_t> sequence_length, const SharedReading& reading) {
  bool of_tokens = false;
  reading.run_collectively([&] {
    of_tokens = file->has(group + "/tokens");
    validate_key(!of_tokens || sequence_length, "data.sequence_length",
                 "is missing ({}:{}/tokens is one long row of tokens); give the number of tokens of an example",
                 file->name(), group);
    validate_key(of_tokens || !sequence_length || !file->has(group + "/inputs"), "data.sequence_length",
                 "is given, but {} has no {}/tokens; remove it, or give a file of tokens", file->name(), group);
  });
  reading.agree(file->name() + ":" + group, of_tokens ? "tokens" : "no tokens");
  return of_tokens ? open_token_dataset(file, group, *sequence_length, reading)
                   : open_hdf5_dataset(file, group, reading);
}

void check_like_train(const Dataset& train, const Dataset* other) {
  if (!other) return;
  validate(train.format() == other->format(), ExitStatus::bad_data,
           "{} differs from /train ({}; {}); store both in the same format", other->description(),
           format_text(other->format()), format_text(train.format()));
  check_vocabulary(*other, train.vocabulary(), train.description());
}

Datasets open_files(const DataConfig& config, const SharedReading& reading) {
  const DataPlace place = DataPlace::of(config.file);
  reading.run_collectively([&] {
    for (const auto& [key, named] : {std::pair("data.file", &config.file),
                                     {"data.validation_file", &config.validation_file},
                                     {"data.test_file", &config.test_file}})
      if (!named->empty()) require_file_of(key, DataPlace::of(*named).file);
  });
  const std::shared_ptr<const Hdf5File> file = open_file(place.file, reading);
  reading.run_collectively([&] {
    validate_key(place.group.empty(), "data.file",
                 "{} names a group (training examples are always read from /train); write {}", config.file, place.file);
    validate(file->has("/train/inputs") || file->has("/train/targets") || file->has("/train/tokens"),
             ExitStatus::bad_data,
             "{}: is not a dataset (it has neither /train/inputs and /train/targets nor /train/tokens{}); store the "
             "examples under these names, with h5py or `lockstep import`",
             file->name(), found_in(*file));
    validate_key(config.validation == 0 || !(file->has("/validation/inputs") || file->has("/validation/tokens")),
                 "data.validation", "is given, but {} already has a /validation; remove one of them", file->name());
  });
  Datasets datasets;
  datasets.train = open_group(file, "/train", config.sequence_length, reading);
  for (const auto& [split, name, named] : {std::tuple(&datasets.validation, "/validation", &config.validation_file),
                                           std::tuple(&datasets.test, "/test", &config.test_file)}) {
    if (!named->empty()) {
      *split = open_examples(*named, name, config.sequence_length, reading);
      continue;
    }
    reading.run_collectively([&] {
      const bool of_tokens = file->has("/train/tokens");
      validate(!file->has(std::string(name) + (of_tokens ? "/inputs" : "/tokens")), ExitStatus::bad_data,
               "{}: {} differs from /train ({}); store both in the same format", file->name(), name,
               of_tokens ? "inputs and targets; tokens" : "tokens; inputs and targets");
    });
    const bool inputs_alone = file->has(std::string(name) + "/inputs") && !file->has(std::string(name) + "/targets");
    reading.agree(file->name() + ":" + name, inputs_alone ? "inputs without targets" : "examples, or none");
    if (inputs_alone && split == &datasets.test) continue;  // a test split without targets is for predictions
    *split = open_group(file, name, config.sequence_length, reading);
  }
  reading.run_collectively([&] {
    check_like_train(*datasets.train, datasets.validation.get());
    check_like_train(*datasets.train, datasets.test.get());
  });
  return datasets;
}

/// Moves randomly chosen training examples to the validation split.
void hold_out(const DataConfig& config, Datasets& datasets) {
  const std::shared_ptr<const Dataset> all = std::move(datasets.train);
  const std::int64_t size = all->size();
  const auto held_out = static_cast<std::int64_t>(config.validation * static_cast<double>(size) + 0.5);
  validate_key(held_out > 0 && held_out < size, "data.validation",
               "{} of {} examples leaves {} to {}; give another fraction", config.validation, size,
               held_out > 0 ? "nothing" : "none", held_out > 0 ? "train on" : "validate on");
  const Permutation order(size, {static_cast<std::uint64_t>(config.validation_seed), RandomPurpose::shuffle,
                                 ~std::uint64_t{0} >> 8});  // not the number of any epoch
  datasets.train = std::make_unique<ChosenExamples>(all, order, held_out, size - held_out,
                                                    "without the held-out examples");
  datasets.validation = std::make_unique<ChosenExamples>(all, order, 0, held_out, "held-out examples");
}

}  // namespace

void NormalizeConfig::describe(Fields& fields) {
  fields.numbers("mean", mean, any_number,
                 "mean that is subtracted, of x / 255 for u8 inputs and of x otherwise; one number for each channel, "
                 "or one for all");
  fields.numbers("std", std, positive,
                 "standard deviation by which the result is divided, in the same units; one number for each channel, "
                 "or one for all");
  fields.check(!mean.empty() && mean.size() == std.size(), "std",
               "must have as many entries as mean, and at least one; write {mean: [0.5], std: [0.25]}");
}

void MemoryConfig::describe(Fields& fields) {
  static constexpr std::string_view input_types[] = {"f32", "f64", "u8", "tokens"};
  static constexpr std::string_view target_types[] = {"f32", "f64"};
  fields.integers("inputs", inputs, at_least_one,
                  "shape of one example, as [28, 28, 1]; for tokens their number, as [64]");
  fields.choice("input_type", input_type, input_types, "type of the inputs; tokens are 32-bit integers");
  fields.integer("targets", targets, {1, 1e9},
                 "number of target values of an example (when not given: the target is a class, or for tokens the "
                 "token that follows each of them, as 32-bit integers)");
  fields.choice("target_type", target_type, target_types, "type of the target values");
  const bool tokens = input_type == InputType::tokens;
  fields.check(!inputs.empty() && inputs.size() < (tokens ? 2 : Shape::max_rank), "inputs",
               tokens ? "must be the number of tokens of an example; write it as [64]"
                      : "must be the shape of one example, of 1 to 5 dimensions; write it as [28, 28, 1]");
  fields.check(!tokens || !targets, "targets",
               "cannot be combined with input_type: tokens (the targets are then tokens, too); remove it");
}

ExampleFormat MemoryConfig::format() const {
  static constexpr DType input_types[] = {DType::f32, DType::f64, DType::u8, DType::i32};
  const Shape shape{std::span(inputs)};
  ExampleFormat format{.input_shape = shape, .input_dtype = input_types[static_cast<int>(input_type)]};
  if (targets) {
    format.target_shape = {*targets};
    format.target_dtype = target_type == TargetType::f64 ? DType::f64 : DType::f32;
  } else if (format.has_tokens()) {
    format.target_shape = shape;
  }
  return format;
}

void DataConfig::describe(Fields& fields) {
  bool has_synthetic = synthetic != nullptr;
  fields.meant_by_value("file");
  fields.path("file", file, "HDF5 file with the examples (give one of file, synthetic and memory)");
  fields.path("validation_file", validation_file,
              "HDF5 file with the validation examples, in place of those in file: its group /validation, or the only "
              "examples in it, or the group named by FILE:/GROUP");
  fields.path("test_file", test_file,
              "HDF5 file with the test examples, on which the run is evaluated once at its end, in place of those in "
              "file: its group /test, or the only examples in it, or the group named by FILE:/GROUP");
  fields.number("validation", validation, fraction_below_one,
                "fraction of the training examples that is held out at random for validation (0: none)");
  fields.integer("validation_seed", validation_seed, {0, 9007199254740992.0},
                 "seed of the choice of held-out examples, which does not depend on run.seed: runs with other seeds "
                 "hold out the same examples");
  fields.optional_section(
      "synthetic", has_synthetic,
      [this](Fields& section) {
        section.one_of("kind", synthetic_kind, synthetic, synthetic_kinds(), "kind of examples that are computed");
        static constexpr std::string_view kind[] = {"kind"};
        section.need(Needs::at_least_one, kind, "it has no default");
      },
      "Computed examples in place of a file (give one of file, synthetic and memory)");
  fields.optional_section(
      "memory", has_memory, [this](Fields& section) { memory.describe(section); },
      "Format of the examples that a program supplies when it uses Lockstep as a library (give one of file, synthetic "
      "and memory)");
  static constexpr std::string_view sources[] = {"file", "synthetic", "memory"};
  fields.need(Needs::exactly_one, sources, "there would be no examples");
  const std::pair<std::string_view, bool> of_files[] = {
      {"validation_file", !validation_file.empty()}, {"test_file", !test_file.empty()}, {"validation", validation > 0}};
  for (const auto& [key, is_given] : of_files)
    fields.check(!is_given || !has_synthetic, key,
                 "cannot be combined with synthetic (which makes its own validation examples); remove it");
  fields.check(
      validation == 0 || validation_file.empty(), "validation",
      "cannot be combined with validation_file (validation examples come from one of them); remove one of them");
  fields.check(
      validation == 0 || shuffle, "validation",
      "cannot be combined with shuffle: false (held-out examples are chosen at random, not in file order); use "
      "shuffle: true, or a file with /validation");
  fields.optional_section(
      "normalize", has_normalize, [this](Fields& section) { normalize.describe(section); },
      "Subtracts a mean from the inputs and divides them by a standard deviation");
  fields.integer("sequence_length", sequence_length, {1, 1e6},
                 "number of tokens of an example, which files of tokens need and others refuse");
  fields.check(!sequence_length || !file.empty(), "sequence_length",
               "is given without a file (it divides the tokens of one into examples); remove it");
  fields.boolean("shuffle", shuffle,
                 "true: a new random order of the examples in every epoch; false: the order of the file");
  fields.choice("sampler", sampler, sampler_names,
                "which examples an epoch visits: permutation (each once); distributed_sampler (as PyTorch's "
                "DistributedSampler deals them out to ranks); weighted (drawn with replacement by the weights in "
                "/train/weights of the file); class_balanced (drawn with replacement, all classes equally likely)");
  const bool draws = sampler == SamplerKind::weighted || sampler == SamplerKind::class_balanced;
  fields.check(shuffle || !draws, "shuffle", "false cannot be combined with a sampler that draws at random; remove it");
  fields.check(!has_memory || sampler == SamplerKind::permutation, "sampler",
               "cannot be combined with memory (the program chooses the examples); remove it");
  fields.section(
      "augment", [this](Fields& section) { augment.describe(section); }, "Random changes of the training images");
  fields.boolean("drop_last", drop_last, "whether to leave out the last batch of an epoch if it is not full");
}

Sampling sampling_of(const DataConfig& config, const Dataset& data, std::int64_t ranks, std::uint64_t seed,
                     std::int64_t ignored) {
  constexpr const char* key = "data.sampler";
  switch (config.sampler) {
    case DataConfig::SamplerKind::permutation: return each_once(data.size(), config.shuffle, seed);
    case DataConfig::SamplerKind::distributed_sampler:
      validate_key(!config.drop_last || data.size() >= ranks, key,
                   "distributed_sampler with drop_last leaves no examples ({} examples on {} ranks); use fewer ranks",
                   data.size(), ranks);
      return distributed_sampler(data.size(), ranks, config.shuffle, config.drop_last, seed);
    case DataConfig::SamplerKind::weighted: {
      const std::vector<double> weights = data.sampling_weights();
      validate_key(!weights.empty(), key,
                   "weighted needs weights, but {} has none; store them as /train/weights, N f32 numbers",
                   data.description());
      double sum = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        validate(std::isfinite(weights[i]) && weights[i] >= 0, ExitStatus::bad_data,
                 "{}: the weight of example {} is {} (0 or a positive number is expected); correct it",
                 data.description(), data.number_in_file(static_cast<std::int64_t>(i)), weights[i]);
        sum += weights[i];
      }
      validate(sum > 0, ExitStatus::bad_data, "{}: all weights are 0 (no example can be drawn); correct them",
               data.description());
      return weighted_sampling(weights, seed);
    }
    case DataConfig::SamplerKind::class_balanced: {
      std::vector<std::int32_t> classes;
      for (std::int64_t i = 0; i < data.size(); ++i) {
        const std::optional<std::int32_t> number = data.class_of(i);
        validate_key(number.has_value(), key,
                     "class_balanced needs examples of one class each ({} has other targets); choose another sampler",
                     data.description());
        classes.push_back(*number);
      }
      validate_key(std::ranges::any_of(classes, [&](std::int32_t number) { return number != ignored; }), key,
                   "class_balanced draws no examples of class {} (loss.ignore_class), and {} has no others; choose "
                   "another sampler",
                   ignored, data.description());
      return class_balanced_sampling(classes, seed, ignored);
    }
  }
  throw Error(ExitStatus::internal, "unknown sampler");
}

std::optional<ExampleFormat> known_format(const DataConfig& config) {
  if (config.has_memory) return config.memory.format();
  if (config.synthetic) return open_datasets(config, 1).train->format();
  if (config.sequence_length) return ExampleFormat{{*config.sequence_length}, DType::i32, {*config.sequence_length}};
  return std::nullopt;
}

void check_vocabulary(const Dataset& data, const std::string& vocabulary, const std::string& whose) {
  const std::string own = data.vocabulary();
  validate(
      own.empty() || vocabulary.empty() || own == vocabulary, ExitStatus::bad_data,
      "{}: its tokens stand for other characters than those of {} (their vocabularies differ); import it again with "
      "the vocabulary of the latter (`lockstep import text --vocabulary`)",
      data.description(), whose);
}

Datasets open_datasets(const DataConfig& config, std::uint64_t seed, const SharedReading& reading) {
  reading.run_collectively([&] {
    validate_key(
        !config.has_memory, "data.memory",
        "is for examples that a program passes to lockstep::Session (this command has no such program); use data.file, "
        "or run that program");
  });
  if (config.synthetic) {
    const auto& synthetic = dynamic_cast<const SyntheticConfig&>(*config.synthetic);
    return {synthetic.make(Split::train, seed), synthetic.make(Split::validation, seed), nullptr};
  }
  Datasets datasets = open_files(config, reading);
  if (config.validation > 0) reading.run_collectively([&] { hold_out(config, datasets); });
  return datasets;
}

std::unique_ptr<Dataset> open_examples(const std::string& place, const std::string& preferred,
                                       std::optional<std::int64_t> sequence_length, const SharedReading& reading) {
  const DataPlace parsed = DataPlace::of(place);
  const std::shared_ptr<const Hdf5File> file = open_file(parsed.file, reading);
  std::string group;
  reading.run_collectively([&] { group = group_in(*file, parsed, preferred); });
  reading.agree(file->name(), "examples in " + group);
  return open_group(file, group, sequence_length, reading);
}

std::unique_ptr<Dataset> open_inputs(const std::string& place, const std::string& preferred,
                                     const std::optional<ExampleFormat>& network, const SharedReading& reading) {
  const DataPlace parsed = DataPlace::of(place);
  const std::shared_ptr<const Hdf5File> file = open_file(parsed.file, reading);
  const bool wants_tokens = network && network->has_tokens();
  std::string inputs, group;
  reading.run_collectively([&] {
    const std::vector<std::string> datasets = file->datasets();
    if (!parsed.group.empty() && file->has_dataset(parsed.group)) inputs = parsed.group;
    else if (parsed.group.empty() && datasets.size() == 1 && groups_of(*file).empty()) inputs = datasets.front();
    else group = group_in(*file, parsed, preferred);
    if (inputs.empty() && file->has(group + "/inputs") && !file->has(group + "/targets")) inputs = group + "/inputs";
    if (inputs.ends_with("/tokens")) inputs.clear(), group = parsed.group.substr(0, parsed.group.rfind('/'));
    const bool of_tokens = inputs.empty() && file->has(group + "/tokens");
    if (!network || of_tokens == wants_tokens) return;
    throw Error(ExitStatus::bad_data,
                fmt::format("{}:{}: holds {}, but the network of the checkpoint reads {}{}; give inputs of that {}",
                            file->name(), inputs.empty() ? group : inputs, of_tokens ? "tokens" : "no tokens",
                            to_string(network->input_shape), wants_tokens ? " tokens" : "",
                            wants_tokens ? "kind, as `lockstep import text` makes them" : "shape"));
  });
  reading.agree(file->name(), "inputs in " + (inputs.empty() ? group : inputs));
  if (!inputs.empty()) return open_hdf5_inputs(file, inputs, reading);
  return open_group(file, group, wants_tokens ? std::optional(network->input_shape[0]) : std::nullopt, reading);
}

}  // namespace lockstep
