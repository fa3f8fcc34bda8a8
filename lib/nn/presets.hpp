// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// A network known by name, whose options stand next to `model.preset`. A preset expands to text that could also be
/// written in `model.layers`.
struct PresetConfig : Config {
  /// The entries of model.layers as YAML text.
  virtual std::string list() const = 0;
  /// Shape of one example, unless model.input gives another one.
  virtual std::vector<std::int64_t> input() const = 0;

  /// Parses list(). Errors about a layer report the position of the preset in the deck.
  std::vector<ListItem> layers() const;
};

std::span<const Alternative> preset_alternatives();

}  // namespace lockstep
