// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/data_config.hpp"
#include "data/dataset/dataset.hpp"
#include "data/dataset/shared_reading.hpp"

namespace lockstep {

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  ///< null: none
  std::unique_ptr<Dataset> test;        ///< null: none
};

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
                                       std::optional<std::int64_t> sequence_length, const SharedReading& reading = {},
                                       Hdf5File::External external = Hdf5File::External::refused);

/// Opens the inputs for predictions: what open_examples takes, where targets are not needed; or FILE:/DATASET of inputs
/// alone, or the only dataset in FILE. `network`: format of the inputs that the network reads, if known. Throws
/// missing_file and bad_data. Collective.
std::unique_ptr<Dataset> open_inputs(const std::string& place, const std::string& preferred,
                                     const std::optional<ExampleFormat>& network, const SharedReading& reading = {},
                                     Hdf5File::External external = Hdf5File::External::refused);

}  // namespace lockstep
