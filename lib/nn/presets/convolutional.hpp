// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// Fully connected: relu between linear layers; images are flattened first.
struct FcConfig : PresetConfig {
  std::vector<std::int64_t> features{1024, 1024, 10};

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {28, 28, 1}; }
};

/// The CNN of Shallue et al., "Measuring the effects of data parallelism on neural network
/// training", JMLR 2019, appendix B: two 5×5 convolutions with pooling, two linear layers.
struct SimpleCnnConfig : PresetConfig {
  std::int64_t filters1 = 32;
  std::int64_t filters2 = 64;
  std::int64_t hidden = 1024;
  std::int64_t classes = 10;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {28, 28, 1}; }
};

/// Configuration A of Simonyan & Zisserman, "Very deep convolutional networks for large-scale image
/// recognition", 2015: 8 convolutions in 5 stages, 3 linear layers. Weights start as in He et al. 2015.
struct Vgg11Config : PresetConfig {
  std::int64_t width = 64;
  std::int64_t hidden = 4096;
  std::int64_t classes = 1000;
  double dropout = 0.5;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {224, 224, 3}; }
};

}  // namespace lockstep
