// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>

#include "nn/presets.hpp"

namespace lockstep {

/// Residual networks of He et al., "Deep residual learning for image recognition", 2016: a stem, four (or three) stages
/// of blocks, global average pooling and a linear layer. Each stage but the first halves the image's edge and doubles
/// the channels. Shortcuts are projections where shapes change (option B). Convolutions have no bias and are
/// initialized as in He et al. 2015.
struct ResidualConfig : PresetConfig {
  std::int64_t width = 64;
  std::int64_t classes = 10;
  bool zero_gamma = false;

  void describe(Fields& fields) override;
};

/// A network for small images: a 3×3 stem and basic blocks (two 3×3 convolutions).
struct Resnet8Config : ResidualConfig {
  Resnet8Config() { width = 16; }
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {32, 32, 3}; }
};
struct Resnet18CifarConfig : ResidualConfig {
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {32, 32, 3}; }
};

/// Networks for images of 224×224: a 7×7 stem and a pooling, then four stages with the given numbers of blocks. These
/// are basic blocks or bottlenecks (1×1, 3×3 with the stride, 1×1 to four times the channels).
struct ImageNetResnetConfig : ResidualConfig {
  std::array<int, 4> blocks;
  bool bottleneck;

  ImageNetResnetConfig(std::array<int, 4> of_stages, bool narrows) : blocks(of_stages), bottleneck(narrows) {
    classes = 1000;
  }
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {224, 224, 3}; }
};
struct Resnet18Config : ImageNetResnetConfig {
  Resnet18Config() : ImageNetResnetConfig({2, 2, 2, 2}, false) {}
};
struct Resnet34Config : ImageNetResnetConfig {
  Resnet34Config() : ImageNetResnetConfig({3, 4, 6, 3}, false) {}
};
struct Resnet50Config : ImageNetResnetConfig {
  Resnet50Config() : ImageNetResnetConfig({3, 4, 6, 3}, true) {}
};
struct Resnet101Config : ImageNetResnetConfig {
  Resnet101Config() : ImageNetResnetConfig({3, 4, 23, 3}, true) {}
};

/// Zagoruyko & Komodakis, "Wide residual networks", 2016, for 32×32 images: WRN-depth-widening has three stages of
/// (depth − 4) / 6 blocks of two 3×3 convolutions, each preceded by batch norm and relu. The stages have 16, 32 and 64
/// times `widening` channels. Convolutions are initialized as in the residual networks above.
struct WideResnetConfig : PresetConfig {
  std::int64_t depth = 28;
  std::int64_t widening = 10;
  std::int64_t classes = 10;
  double dropout = 0;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {32, 32, 3}; }
};

}  // namespace lockstep
