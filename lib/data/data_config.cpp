// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/data_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "data/dataset/dataset.hpp"
#include "data/dataset/synthetic.hpp"

namespace lockstep {

void NormalizeConfig::describe(Fields& fields) {
  fields.numbers("mean", mean, any_number,
                 "mean that is subtracted, after scale; one number for each channel, or one for all");
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
  for (const auto& [key, name, help] :
       {std::tuple("inputs", &inputs,
                   "name of the dataset of inputs in the file, as /fields/x, if it is not /train/inputs"),
        {"targets", &targets, "name of the dataset of targets"},
        {"weights", &weights, "name of the dataset of weights, for the sampler weighted"}})
    fields.text(key, *name, help);
  fields.check(inputs.empty() == targets.empty(), inputs.empty() ? "inputs" : "targets",
               "is missing; inputs and targets are named together");
  fields.check(weights.empty() || !inputs.empty(), "weights", "is for named inputs and targets; name these, too");
  fields.check(inputs.empty() || !file.empty(), "inputs", "names a dataset of a file; give data.file");
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
  fields.boolean("allow_external", allow_external,
                 "whether a dataset's numbers may lie outside the HDF5 files (external storage), by which a file can "
                 "name any other file of the machine");
  static constexpr std::string_view scales[] = {"auto", "255", "none"};
  fields.choice("scale", scale, scales,
                "what inputs of u8 are divided by before normalize: 255, as colours are; none: they are read as they "
                "are; auto: none if the network looks up rows of tables by them (embedding_tables), else 255");
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

Normalization normalization_of(const DataConfig& config, const ExampleFormat& format, bool reads_rows) {
  const std::size_t entries = config.normalize.mean.size();
  validate_key(entries == 0 || !format.has_tokens(), "data.normalize",
               "the inputs are tokens (numbers of words, not values); remove it");
  const auto channels = static_cast<std::size_t>(format.input_shape[-1]);
  validate_key(entries <= 1 || entries == channels, "data.normalize.mean",
               "has {} entries (the inputs have {} channels); give one for each channel, or one for all", entries,
               channels);
  const bool is_u8 = format.input_dtype == DType::u8;
  validate_key(is_u8 || config.scale != DataConfig::Scale::by_255, "data.scale",
               "255 divides inputs of u8, but these are {}; leave it out, or use normalize: {{mean: [0], std: [255]}}",
               name_of(format.input_dtype));
  const bool divides = is_u8 && (config.scale == DataConfig::Scale::by_255 ||
                                 (config.scale == DataConfig::Scale::automatic && !reads_rows));
  return {.unit = divides ? 255.0 : 1.0, .mean = config.normalize.mean, .std = config.normalize.std};
}

void warn_of_units(const DataConfig& config, const Dataset& data, const Normalization& normalization) {
  if (normalization.unit == 1 || data.is_computed()) return;
  if (!normalization.mean.empty() && std::ranges::max(normalization.mean) > 1) {
    const auto divided = [&](const std::vector<double>& numbers) {
      std::vector<std::string> texts;
      for (const double number : numbers) texts.push_back(fmt::format("{:.4g}", number / normalization.unit));
      return fmt::format("[{}]", fmt::join(texts, ", "));
    };
    warn(
        "data.normalize: a mean of {:g} is in units of 0 to 255, but inputs of u8 are divided by 255 before it is "
        "subtracted; write {{mean: {}, std: {}}}, or set data.scale: none",
        std::ranges::max(normalization.mean), divided(normalization.mean), divided(normalization.std));
  }
  if (config.scale != DataConfig::Scale::automatic) return;
  constexpr std::int64_t most = 256, most_bytes = std::int64_t{1} << 24, least_of_colours = 128;
  const auto bytes = static_cast<std::int64_t>(data.format().input_bytes());
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min({most, data.size(), std::max<std::int64_t>(1, most_bytes / bytes)})));
  std::iota(first.begin(), first.end(), 0);
  std::vector<std::uint8_t> inputs(first.size() * data.format().input_bytes());
  std::vector<std::byte> targets(first.size() * data.format().target_bytes());
  data.read(first, inputs.data(), targets.data());
  const int largest = std::ranges::max(inputs);
  if (largest < least_of_colours)
    warn(
        "{}: inputs of u8 are divided by 255, as colours are, but the largest of the first {} is {}; set data.scale: "
        "none if they are numbers to be read as they are, or 255 if they are colours",
        data.description(), counted(std::ssize(first), "example"), largest);
}

}  // namespace lockstep
