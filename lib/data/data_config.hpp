// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "data/sampling.hpp"
#include "data/shared_reading.hpp"

namespace lockstep {

/// data.normalize: inputs become (x − mean) / std, per channel or for all. Without it they stay as
/// they are, but u8 is divided by 255 in any case.
struct NormalizeConfig : Config {
  std::vector<double> mean;
  std::vector<double> std;

  void describe(Fields& fields) override;
};

/// data.memory: what examples look like that the program gives in which Lockstep is a library (api/session.hpp).
struct MemoryConfig : Config {
  enum class InputType { f32, f64, u8, tokens };
  enum class TargetType { f32, f64 };

  std::vector<std::int64_t> inputs;
  InputType input_type = InputType::f32;
  std::optional<std::int64_t> targets;  ///< values; none: classes, or the tokens that follow
  TargetType target_type = TargetType::f32;

  ExampleFormat format() const;
  void describe(Fields& fields) override;
};

/// data: what is learned from.
struct DataConfig : Config {
  enum class SamplerKind { permutation, distributed_sampler, weighted, class_balanced };
  static constexpr std::string_view sampler_names[] = {"permutation", "distributed_sampler", "weighted",
                                                       "class_balanced"};

  std::string file;  ///< empty: synthetic, or memory
  std::string validation_file, test_file;
  double validation = 0;  ///< fraction held out
  std::int64_t validation_seed = 1;
  std::optional<std::int64_t> sequence_length;  ///< of files with tokens
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
  std::unique_ptr<Dataset> validation;  ///< null: there is none
  std::unique_ptr<Dataset> test;        ///< likewise
};

/// Whether an epoch of that order may have an example more than once, drawn again.
constexpr bool draws_again(DataConfig::SamplerKind sampler) {
  return sampler == DataConfig::SamplerKind::weighted || sampler == DataConfig::SamplerKind::class_balanced;
}

/// The order of the training examples of so many ranks. `ignored`: the class that the loss does not count (-1: there is
/// none). Throws KeyError where the deck's sampler does not suit the data.
Sampling sampling_of(const DataConfig& config, const Dataset& data, std::int64_t ranks, std::uint64_t seed,
                     std::int64_t ignored);

/// What the examples look like, where the deck alone says so.
std::optional<ExampleFormat> known_format(const DataConfig& config);

/// Throws missing_file, bad_data, or KeyError where the deck does not fit the file. Collective (SharedReading).
Datasets open_datasets(const DataConfig& config, std::uint64_t seed, const SharedReading& reading = {});

/// Examples of FILE, or of FILE:/GROUP: without a group those of `preferred` ("/validation"), or the only ones in the
/// file. Throws likewise. Collective.
std::unique_ptr<Dataset> open_examples(const std::string& place, const std::string& preferred,
                                       std::optional<std::int64_t> sequence_length, const SharedReading& reading = {});

/// What the network of a checkpoint is to predict of: as open_examples, and targets are not needed; or FILE:/DATASET of
/// inputs alone, or the only dataset in FILE. `network`: what it reads, where that is known. Throws missing_file and
/// bad_data. Collective.
std::unique_ptr<Dataset> open_inputs(const std::string& place, const std::string& preferred,
                                     const std::optional<ExampleFormat>& network, const SharedReading& reading = {});

}  // namespace lockstep
