// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "data/augment.hpp"
#include "data/batch/sampler.hpp"
#include "data/dataset/dataset.hpp"
#include "data/dataset/shared_reading.hpp"

namespace lockstep {

/// data.normalize: inputs become (x − mean) / std, for each channel or for all. Inputs of u8 are divided by 255 in any
/// case; others stay as they are without this section.
struct NormalizeConfig : Config {
  std::vector<double> mean;
  std::vector<double> std;

  void describe(Fields& fields) override;
};

/// data.memory: format of the examples that a program gives to Lockstep as a library (api/session.hpp).
struct MemoryConfig : Config {
  enum class InputType { f32, f64, u8, tokens };
  enum class TargetType { f32, f64 };

  std::vector<std::int64_t> inputs;
  InputType input_type = InputType::f32;
  std::optional<std::int64_t> targets;  ///< number of target values; none: a class, or the tokens that follow
  TargetType target_type = TargetType::f32;

  ExampleFormat format() const;
  void describe(Fields& fields) override;
};

/// data: the examples to learn from.
struct DataConfig : Config {
  enum class SamplerKind { permutation, distributed_sampler, weighted, class_balanced };
  static constexpr std::string_view sampler_names[] = {"permutation", "distributed_sampler", "weighted",
                                                       "class_balanced"};

  std::string file;  ///< empty: synthetic, or memory
  std::string validation_file, test_file;
  double validation = 0;  ///< fraction held out
  std::int64_t validation_seed = 1;
  std::optional<std::int64_t> sequence_length;  ///< tokens of an example, in files of tokens
  std::string synthetic_kind;
  std::shared_ptr<Config> synthetic;  ///< a SyntheticConfig; null: file, or memory
  bool has_memory = false;
  MemoryConfig memory;
  bool has_normalize = false;
  NormalizeConfig normalize;  ///< empty unless has_normalize
  bool shuffle = true;
  SamplerKind sampler = SamplerKind::permutation;
  AugmentConfig augment;
  bool drop_last = false;

  void describe(Fields& fields) override;
};

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  ///< null: none
  std::unique_ptr<Dataset> test;        ///< null: none
};

/// Whether an epoch in the order of this sampler may draw an example more than once.
constexpr bool draws_again(DataConfig::SamplerKind sampler) {
  return sampler == DataConfig::SamplerKind::weighted || sampler == DataConfig::SamplerKind::class_balanced;
}

/// Returns the order of the training examples for this number of ranks. `ignored`: the class that the loss does not
/// count (-1: none). Throws KeyError if the deck's sampler does not suit the data.
Sampling sampling_of(const DataConfig& config, const Dataset& data, std::int64_t ranks, std::uint64_t seed,
                     std::int64_t ignored);

/// Returns the format of the examples, if the deck alone determines it.
std::optional<ExampleFormat> known_format(const DataConfig& config);

/// Throws bad_data if the tokens of `data` stand for other characters than `vocabulary`, which is that of `whose`. Does
/// nothing where either is empty: not known.
void check_vocabulary(const Dataset& data, const std::string& vocabulary, const std::string& whose);

/// Throws missing_file, bad_data, or KeyError if the deck does not fit the file. Collective over the ranks of
/// `reading`.
Datasets open_datasets(const DataConfig& config, std::uint64_t seed, const SharedReading& reading = {});

/// Opens the examples of FILE or FILE:/GROUP; without a group, those of `preferred` ("/validation"), or else the only
/// ones in the file. Throws what open_datasets throws. Collective.
std::unique_ptr<Dataset> open_examples(const std::string& place, const std::string& preferred,
                                       std::optional<std::int64_t> sequence_length, const SharedReading& reading = {});

/// Opens the inputs for predictions: what open_examples takes, where targets are not needed; or FILE:/DATASET of inputs
/// alone, or the only dataset in FILE. `network`: format of the inputs that the network reads, if known. Throws
/// missing_file and bad_data. Collective.
std::unique_ptr<Dataset> open_inputs(const std::string& place, const std::string& preferred,
                                     const std::optional<ExampleFormat>& network, const SharedReading& reading = {});

}  // namespace lockstep
