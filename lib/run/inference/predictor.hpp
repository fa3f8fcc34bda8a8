// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"
#include "train/results.hpp"

namespace lockstep {

/// The data that `lockstep evaluate` reads, and the file that it writes.
struct EvaluationData {
  std::string place;                 ///< FILE or FILE:/GROUP; empty: the deck's own data
  std::string split = "validation";  ///< name of the split to evaluate
  std::string confusion_matrix;      ///< file to make (ArrayFile), with a row for the targets of each class; empty:
                                     ///< none
  bool overwrite = false;            ///< whether to replace that file if it exists
};

/// Returns the metrics of the parameters in `file`: what `lockstep evaluate` does. Collective.
Metrics evaluate_file(const RunConfig& config, const std::string& file, const EvaluationData& what,
                      const Communicator& comm);

struct PredictOptions {
  /// What is written for each example: the network's outputs, the number of the largest one, or the
  /// probabilities that they stand for (Loss::probabilities).
  enum class Form { outputs, classes, probabilities };

  std::string checkpoint;      ///< file; the deck in it says what the network is
  std::string data;            ///< FILE, FILE:/GROUP, or FILE:/DATASET of inputs alone
  std::string split = "test";  ///< the group of FILE to read, if it has several
  std::string output;          ///< see ArrayFile
  Form form = Form::outputs;
  bool overwrite = false;
};

/// Writes what the network of a checkpoint computes for each example, in the order of the file, with the same bits on
/// any number of ranks. Returns a description of what was done. Collective.
std::string predict(const PredictOptions& options, const Communicator& comm);

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::int64_t count = 0;  ///< tokens
  double temperature = 1;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;  ///< only so many of the likeliest tokens (0: all)
  std::int64_t seed = 1;
};

/// Returns the prompt with what a language model writes after it. Uses this process alone.
std::string generate(const GenerateOptions& options);

}  // namespace lockstep
