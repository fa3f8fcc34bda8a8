// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layer.hpp"

namespace lockstep {

/// A network known by name; its options stand beside `model.preset`.
struct PresetConfig : Config {
  virtual std::vector<ListItem> layers() const = 0;
};

/// Fully connected: relu between linear layers; images are flattened first.
struct FcConfig : PresetConfig {
  std::vector<std::int64_t> features{1024, 1024, 10};

  void describe(Fields& fields) override;
  std::vector<ListItem> layers() const override;
};

/// The CNN of Shallue et al., "Measuring the effects of data parallelism on neural network
/// training", JMLR 2019, appendix B: two 5×5 convolutions with pooling, two linear layers.
struct SimpleCnnConfig : PresetConfig {
  std::int64_t filters1 = 32;
  std::int64_t filters2 = 64;
  std::int64_t hidden = 1024;
  std::int64_t classes = 10;

  void describe(Fields& fields) override;
  std::vector<ListItem> layers() const override;
};

std::span<const Alternative> preset_alternatives();

}  // namespace lockstep
