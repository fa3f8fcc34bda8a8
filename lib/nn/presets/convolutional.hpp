// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// A fully connected network with relu between its linear layers; images are flattened first.
struct FcConfig : PresetConfig {
  std::vector<std::int64_t> features{1024, 1024, 10};

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {28, 28, 1}; }
};

/// The CNN of Shallue et al., "Measuring the effects of data parallelism on neural network training", JMLR 2019,
/// appendix B: two 5×5 convolutions with pooling, then two linear layers.
struct SimpleCnnConfig : PresetConfig {
  std::int64_t filters1 = 32;
  std::int64_t filters2 = 64;
  std::int64_t hidden = 1024;
  std::int64_t classes = 10;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {28, 28, 1}; }
};

/// Configuration A of Simonyan & Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015:
/// 8 convolutions in 5 stages and 3 linear layers. Weights are initialized as in He et al. 2015.
struct Vgg11Config : PresetConfig {
  std::int64_t width = 64;
  std::int64_t hidden = 4096;
  std::int64_t classes = 1000;
  double dropout = 0.5;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {224, 224, 3}; }
};

/// Ronneberger, Fischer & Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015: `depth`
/// halvings of the images with two 3×3 convolutions before each, and as many doublings by transposed convolutions, each
/// concatenated with the images before the matching halving. Predicts a class for each pixel; convolutions are padded,
/// so that the output has the image's size.
struct UnetConfig : PresetConfig {
  std::int64_t image = 256;
  std::int64_t channels = 1;
  std::int64_t depth = 4;
  std::int64_t width = 64;
  std::int64_t classes = 2;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {image, image, channels}; }
};

/// M5 of Dai et al., "Very deep convolutional neural networks for raw waveforms", 2017: four convolutions over signals,
/// each followed by batch norm and pooling, then the mean over the remaining positions.
struct SpeechCnnConfig : PresetConfig {
  std::int64_t samples = 32000;
  std::int64_t width = 128;
  std::int64_t kernel = 80;
  std::int64_t stride = 4;
  std::int64_t classes = 10;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {samples, 1}; }
};

}  // namespace lockstep
