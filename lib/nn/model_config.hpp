// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"
#include "nn/plan/execution_plan.hpp"

namespace lockstep {

/// The deck's model.weights: a file whose parameters the network starts with.
struct WeightsConfig {
  enum class Match { strict, shapes };
  enum class Layout { automatic, nchw, nhwc };

  bool present = false;
  std::string file;
  Match match = Match::strict;
  std::vector<std::pair<std::string, std::string>> rename;  ///< pairs (name in the file, name in the network)
  std::vector<std::string> freeze;                          ///< see Graph::freeze
  Layout layout = Layout::automatic;

  void describe(Fields& fields);

  /// The network's name for the parameter that the file calls `name`, as in "encoder/weight". The first matching
  /// pattern applies.
  std::string renamed(const std::string& name) const;
};

/// The deck's `model` section: a preset with its options, or a list of layers.
struct ModelConfig : Config {
  std::string preset;
  std::shared_ptr<Config> preset_config;
  std::vector<ListItem> layers;
  std::vector<std::int64_t> input;  ///< shape of one example; empty: the preset's, or else the data's
  WeightsConfig weights;
  Checkpointing checkpointing = Checkpointing::none;

  void describe(Fields& fields) override;

  /// Returns the layers of the preset or of the list.
  std::vector<ListItem> resolved_layers() const;
};

}  // namespace lockstep
