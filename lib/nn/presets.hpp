// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// A network known by name; its options stand beside `model.preset`. It is nothing that a deck could not
/// say: the text that its options stand for, as in `model.layers`.
struct PresetConfig : Config {
  /// The entries of model.layers, in YAML.
  virtual std::string list() const = 0;
  /// Shape of one example, unless model.input says otherwise.
  virtual std::vector<std::int64_t> input() const = 0;

  /// These entries, read. They stand where the preset does: complaints about a layer name that place.
  std::vector<ListItem> layers() const;
};

std::span<const Alternative> preset_alternatives();

}  // namespace lockstep
