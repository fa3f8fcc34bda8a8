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
#include "io/hdf5.hpp"

namespace lockstep {

/// data.normalize: inputs become (x − mean) / std, for each channel or for all.
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

/// What a network reads for a number x of the inputs: (x / unit − mean) / std.
struct Normalization {
  double unit = 1;
  std::vector<double> mean, std;  ///< a number for each channel, or one for all; empty: 0 and 1
};

/// data: the examples to learn from.
struct DataConfig : Config {
  enum class Scale { automatic, by_255, none };
  enum class SamplerKind { permutation, distributed_sampler, weighted, class_balanced };
  static constexpr std::string_view sampler_names[] = {"permutation", "distributed_sampler", "weighted",
                                                       "class_balanced"};

  std::string file;  ///< empty: synthetic, or memory
  std::string validation_file, test_file;
  std::string inputs, targets, weights;  ///< names of datasets in the files; empty: those of docs/user/data.md
  double validation = 0;                 ///< fraction held out
  std::int64_t validation_seed = 1;
  bool allow_external = false;                  ///< numbers may lie outside the HDF5 files
  std::optional<std::int64_t> sequence_length;  ///< tokens of an example, in files of tokens
  std::string synthetic_kind;
  std::shared_ptr<Config> synthetic;  ///< a SyntheticConfig; null: file, or memory
  bool has_memory = false;
  MemoryConfig memory;
  bool has_normalize = false;
  NormalizeConfig normalize;  ///< empty unless has_normalize
  Scale scale = Scale::automatic;
  bool shuffle = true;
  SamplerKind sampler = SamplerKind::permutation;
  AugmentConfig augment;
  bool drop_last = false;

  Hdf5File::External external() const {
    return allow_external ? Hdf5File::External::allowed : Hdf5File::External::refused;
  }
  void describe(Fields& fields) override;
};

/// Whether an epoch in the order of this sampler may draw an example more than once.
constexpr bool draws_again(DataConfig::SamplerKind sampler) {
  return sampler == DataConfig::SamplerKind::weighted || sampler == DataConfig::SamplerKind::class_balanced;
}

/// Returns the order of the training examples for this number of ranks. `ignored`: the class that the loss does not
/// count (-1: none). Throws KeyError if the deck's sampler does not suit the data.
Sampling sampling_of(const DataConfig& config, const Dataset& data, std::int64_t ranks, std::uint64_t seed,
                     std::int64_t ignored);

/// Returns what `scale` and `normalize` make of inputs in this format. `reads_rows`: the network looks up rows of
/// tables by their numbers, so that `scale: auto` leaves these as they are. Throws KeyError if the deck does not suit
/// the format.
Normalization normalization_of(const DataConfig& config, const ExampleFormat& format, bool reads_rows);

/// Warns if the deck's `scale` and `normalize` are unlikely to be meant for these examples: means in grey levels next
/// to inputs that are divided by 255, or inputs divided by 255 that are no colours. Reads the first examples.
void warn_of_units(const DataConfig& config, const Dataset& data, const Normalization& normalization);

}  // namespace lockstep
