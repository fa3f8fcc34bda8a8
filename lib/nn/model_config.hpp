// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "nn/plan/execution_plan.hpp"
#include "nn/weights_config.hpp"

namespace lockstep {

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
