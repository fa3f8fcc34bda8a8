// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/data_config.hpp"

#include "base/error.hpp"
#include "data/hdf5_dataset.hpp"
#include "data/synthetic.hpp"
#include "data/token_dataset.hpp"

namespace lockstep {
namespace {

std::string format_text(const ExampleFormat& format) {
  if (format.has_tokens()) return fmt::format("{} tokens, and those that follow them", to_string(format.input_shape));
  return fmt::format("inputs {} {}, targets {} {}", to_string(format.input_shape), name_of(format.input_dtype),
                     format.has_classes() ? "classes" : to_string(format.target_shape), name_of(format.target_dtype));
}

Datasets open_tokens(const std::shared_ptr<const Hdf5File>& file, std::optional<std::int64_t> sequence_length) {
  validate_key(sequence_length.has_value(), "data.sequence_length",
               "is missing ({}:/train/tokens is one long row of tokens); give the number of tokens of an example",
               file->name());
  validate(!file->has("/validation/inputs"), ExitStatus::bad_data,
           "{}: /validation differs from /train (inputs and targets; tokens); store both alike", file->name());
  return {open_token_dataset(file, "train", *sequence_length),
          open_token_dataset(file, "validation", *sequence_length)};
}

Datasets open_file(const std::string& path, std::optional<std::int64_t> sequence_length) {
  const auto file = std::make_shared<const Hdf5File>(Hdf5File::open(path));
  if (file->has("/train/tokens")) return open_tokens(file, sequence_length);
  validate_key(!sequence_length, "data.sequence_length",
               "is given, but {} has no /train/tokens; remove it, or give a file of tokens", path);
  Datasets datasets{open_hdf5_dataset(file, "train"), nullptr};
  if (!datasets.train)
    throw Error(
        ExitStatus::bad_data,
        fmt::format(
            "{}: is no dataset (it has no /train/inputs and /train/targets, and no /train/tokens{}); make one with "
            "`lockstep import`",
            path, file->has("/model") ? ", but the parameters of a model" : ""));
  validate(!file->has("/validation/tokens"), ExitStatus::bad_data,
           "{}: /validation differs from /train (tokens; inputs and targets); store both alike", path);
  datasets.validation = open_hdf5_dataset(file, "validation");
  if (datasets.validation)
    validate(datasets.train->format() == datasets.validation->format(), ExitStatus::bad_data,
             "{}: /validation differs from /train ({}; {}); store both alike", path,
             format_text(datasets.validation->format()), format_text(datasets.train->format()));
  return datasets;
}

}  // namespace

void NormalizeConfig::describe(Fields& fields) {
  fields.numbers("mean", mean, any_number,
                 "of x / 255 for u8 inputs, of x otherwise; one for each channel, or one for all");
  fields.numbers("std", std, positive, "standard deviation, likewise");
  fields.check(!mean.empty() && mean.size() == std.size(), "std",
               "must have as many entries as mean, and at least one; write {mean: [0.5], std: [0.25]}");
}

void DataConfig::describe(Fields& fields) {
  bool has_synthetic = synthetic != nullptr;
  fields.text("file", file, "HDF5 file with the examples (this or synthetic)");
  fields.optional_section(
      "synthetic", has_synthetic,
      [this](Fields& section) {
        section.one_of("kind", synthetic_kind, synthetic, synthetic_kinds(), "what is computed");
        section.check(!synthetic_kind.empty(), "kind",
                      "is missing (it has no default); write glyphs, linear or random");
      },
      "examples that are computed (this or file)");
  fields.check(file.empty() || !has_synthetic, "synthetic", "stands beside file (only one can be); remove one of them");
  fields.check(!file.empty() || has_synthetic, "file",
               "is missing, and so is synthetic (one of them must be); give one");
  fields.optional_section(
      "normalize", has_normalize, [this](Fields& section) { normalize.describe(section); },
      "subtracts a mean from the inputs and divides them by a standard deviation");
  fields.integer("sequence_length", sequence_length, {1, 1e6},
                 "tokens of an example, in files of tokens (required there)");
  fields.check(!sequence_length || !file.empty(), "sequence_length",
               "stands beside synthetic (it cuts the tokens of a file); remove it");
  fields.boolean("shuffle", shuffle, "a new random order every epoch; false: file order");
  fields.section(
      "augment", [this](Fields& section) { augment.describe(section); }, "random changes of the training images");
  fields.boolean("drop_last", drop_last, "leaves out an epoch's last batch when it is not full");
}

Datasets open_datasets(const DataConfig& config, std::uint64_t seed) {
  if (!config.file.empty()) return open_file(config.file, config.sequence_length);
  const auto& synthetic = dynamic_cast<const SyntheticConfig&>(*config.synthetic);
  return {synthetic.make(Split::train, seed), synthetic.make(Split::validation, seed)};
}

}  // namespace lockstep
