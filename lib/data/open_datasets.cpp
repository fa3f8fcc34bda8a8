// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/open_datasets.hpp"

#include <fmt/ranges.h>

#include <algorithm>
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

/// Whether a group has examples. One with inputs or tokens of no rows counts as missing.
bool has_examples(const Hdf5File& file, const std::string& group) {
  for (const char* name : {"/inputs", "/tokens"})
    if (file.has(group + name)) {
      const std::vector<std::int64_t> extents = file.shape_of(group + name).extents;
      return extents.empty() || extents[0] > 0;
    }
  return file.has(group + "/targets");
}

/// Opens a file on every rank. Throws on all ranks if one of them cannot open it.
std::shared_ptr<const Hdf5File> open_file(const std::string& path, const SharedReading& reading,
                                          Hdf5File::External external) {
  std::shared_ptr<const Hdf5File> file;
  reading.run_collectively([&] { file = std::make_shared<const Hdf5File>(Hdf5File::open(path, external)); });
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
                   : open_hdf5_dataset(file, ExampleNames::in_group(group), reading);
}

void check_like_train(const Dataset& train, const Dataset* other) {
  if (!other) return;
  validate(train.format() == other->format(), ExitStatus::bad_data,
           "{} differs from /train ({}; {}); store both in the same format", other->description(),
           format_text(other->format()), format_text(train.format()));
  check_vocabulary(*other, train.vocabulary(), train.description());
}

/// Opens the examples that data.inputs and data.targets name, in each of the deck's files.
Datasets open_named(const DataConfig& config, const SharedReading& reading) {
  const auto slashed = [](const std::string& name) {
    return name.empty() || name.starts_with('/') ? name : "/" + name;
  };
  const ExampleNames names{slashed(config.inputs), slashed(config.targets), slashed(config.weights),
                           slashed(config.inputs)};
  const auto open = [&](const std::string& path) -> std::unique_ptr<Dataset> {
    if (path.empty()) return nullptr;
    const std::shared_ptr<const Hdf5File> file = open_file(path, reading, config.external());
    reading.run_collectively([&] {
      for (const auto& [key, name] : {std::pair("data.inputs", &names.inputs),
                                      {"data.targets", &names.targets},
                                      {"data.weights", &names.weights}})
        validate_key(name->empty() || file->has(*name), key, "{} has no dataset {}{}", file->name(), *name,
                     found_in(*file));
    });
    return open_hdf5_dataset(file, names, reading);
  };
  Datasets datasets{open(config.file), open(config.validation_file), open(config.test_file)};
  reading.run_collectively([&] {
    check_like_train(*datasets.train, datasets.validation.get());
    check_like_train(*datasets.train, datasets.test.get());
  });
  return datasets;
}

Datasets open_files(const DataConfig& config, const SharedReading& reading) {
  const DataPlace place = DataPlace::of(config.file);
  reading.run_collectively([&] {
    for (const auto& [key, named] : {std::pair("data.file", &config.file),
                                     {"data.validation_file", &config.validation_file},
                                     {"data.test_file", &config.test_file}})
      if (!named->empty()) require_file_of(key, DataPlace::of(*named).file);
  });
  if (!config.inputs.empty()) return open_named(config, reading);
  const std::shared_ptr<const Hdf5File> file = open_file(place.file, reading, config.external());
  reading.run_collectively([&] {
    validate_key(place.group.empty(), "data.file",
                 "{} names a group (training examples are always read from /train); write {}", config.file, place.file);
    validate(file->has("/train/inputs") || file->has("/train/targets") || file->has("/train/tokens"),
             ExitStatus::bad_data,
             "{}: is not a dataset (it has neither /train/inputs and /train/targets nor /train/tokens{}); name the "
             "datasets, as data: {{inputs: /x, targets: /y}}, or store the examples under these names, with h5py or "
             "`lockstep import`",
             file->name(), found_in(*file));
    validate_key(config.validation == 0 || !has_examples(*file, "/validation"), "data.validation",
                 "is given, but {} already has a /validation; remove one of them", file->name());
  });
  Datasets datasets;
  datasets.train = open_group(file, "/train", config.sequence_length, reading);
  for (const auto& [split, name, named] : {std::tuple(&datasets.validation, "/validation", &config.validation_file),
                                           std::tuple(&datasets.test, "/test", &config.test_file)}) {
    if (!named->empty()) {
      *split = open_examples(*named, name, config.sequence_length, reading, config.external());
      continue;
    }
    reading.run_collectively([&] {
      const bool of_tokens = file->has("/train/tokens");
      validate(!file->has(std::string(name) + (of_tokens ? "/inputs" : "/tokens")), ExitStatus::bad_data,
               "{}: {} differs from /train ({}); store both in the same format", file->name(), name,
               of_tokens ? "inputs and targets; tokens" : "tokens; inputs and targets");
    });
    bool is_there = false;
    reading.run_collectively([&] { is_there = has_examples(*file, name); });
    const bool inputs_alone = is_there && file->has(std::string(name) + "/inputs") &&
                              !file->has(std::string(name) + "/targets");
    reading.agree(file->name() + ":" + name, inputs_alone ? "inputs without targets"
                                             : is_there   ? "examples"
                                                          : "no examples");
    if (!is_there || (inputs_alone && split == &datasets.test)) continue;  // such a test split is for predictions
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
                                       std::optional<std::int64_t> sequence_length, const SharedReading& reading,
                                       Hdf5File::External external) {
  const DataPlace parsed = DataPlace::of(place);
  const std::shared_ptr<const Hdf5File> file = open_file(parsed.file, reading, external);
  std::string group;
  reading.run_collectively([&] { group = group_in(*file, parsed, preferred); });
  reading.agree(file->name(), "examples in " + group);
  return open_group(file, group, sequence_length, reading);
}

std::unique_ptr<Dataset> open_inputs(const std::string& place, const std::string& preferred,
                                     const std::optional<ExampleFormat>& network, const SharedReading& reading,
                                     Hdf5File::External external) {
  const DataPlace parsed = DataPlace::of(place);
  const std::shared_ptr<const Hdf5File> file = open_file(parsed.file, reading, external);
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
