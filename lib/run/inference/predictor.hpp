// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

struct PredictOptions {
  /// What is written: the network's outputs, the largest one's number, or what softmax makes of them.
  enum class Form { outputs, classes, probabilities };

  std::string checkpoint;      ///< file; the deck in it says what the network is
  std::string data;            ///< FILE, FILE:/GROUP, or FILE:/DATASET of inputs alone
  std::string split = "test";  ///< the group of FILE, where it has several
  std::string output;          ///< see ArrayFile
  Form form = Form::outputs;
  bool overwrite = false;
};

/// What the network of a checkpoint makes of each example, in the order of the file: the same bits on any number of
/// ranks. Returns what it has done, in words. Collective.
std::string predict(const PredictOptions& options, const Communicator& comm);

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::int64_t count = 0;  ///< tokens
  double temperature = 1;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;  ///< only the likeliest so many tokens (0: all)
  std::int64_t seed = 1;
};

/// The prompt, and what a language model writes after it. By this process alone.
std::string generate(const GenerateOptions& options);

}  // namespace lockstep
