// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
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

/// Blocks of x + attention(norm(x)) and x + mlp(norm(x)), where the MLP has gelu on 4·d_model units, followed by a last
/// norm (Radford et al. 2019). Weights are initialized from N(0, initial_std²), biases with 0.
struct BlocksConfig : PresetConfig {
  std::int64_t d_model = 256;
  std::int64_t depth = 4;
  std::int64_t heads = 8;
  double dropout = 0;
  double initial_std = 0.02;

  void describe(Fields& fields) override;

 protected:
  /// The properties in which blocks of different networks differ.
  struct BlockForm {
    bool causal = true;
    std::string_view gelu = "gelu";
    double residual_std;  ///< initial_std of the weights whose products are added to the residual stream
  };
  /// The entries after the layer `positions` (and after its dropout, if there is one).
  std::string blocks(const BlockForm& form) const;
};

/// A decoder-only transformer: token embeddings, learned position embeddings, blocks, and a linear layer over the
/// vocabulary.
struct TransformerConfig : BlocksConfig {
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 128;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {sequence}; }

 protected:
  /// All entries but the last layer.
  std::string decoder(const BlockForm& form) const;
};

/// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): a decoder whose last layer
/// shares the embedding's weight and has no bias, with the tanh form of gelu. Weights whose products are added to the
/// residual stream are initialized from N(0, initial_std² / (2·depth)).
struct Gpt2Config : TransformerConfig {
  /// Sizes named by their millions of parameters.
  enum class Size { m124, m355, m774, m1558 };
  Size size = Size::m124;

  Gpt2Config();
  void describe(Fields& fields) override;
  std::string list() const override;

 private:
  void choose_size();
};

/// A vision transformer (Dosovitskiy et al. 2021) over patches, with the mean over all positions instead of a class
/// token (Beyer, Zhai and Kolesnikov 2022). The default is ViT-Ti/16.
struct VitConfig : BlocksConfig {
  std::int64_t image = 224;
  std::int64_t channels = 3;
  std::int64_t patch = 16;
  std::int64_t classes = 1000;

  VitConfig();
  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {image, image, channels}; }
};

/// A language model: embedding, LSTM layers (Hochreiter & Schmidhuber 1997) and a linear layer over the vocabulary.
/// Dropout follows the embedding and each LSTM layer, and is not applied between time steps (Zaremba et al. 2014).
struct LstmPresetConfig : PresetConfig {
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 128;
  std::int64_t embedding = 128;
  std::int64_t units = 256;
  std::int64_t depth = 1;
  double dropout = 0;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {sequence}; }
};

/// Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", 2019. An MLP
/// maps the dense values of an example to a vector of `features` numbers, and each of its categories selects such a
/// vector from a table; an MLP over the dot products of all these vectors gives the logit of a click. An example
/// consists of its dense values followed by a row number for each table.
struct RecommenderConfig : PresetConfig {
  std::int64_t dense = 13;
  std::vector<std::int64_t> vocabularies = std::vector<std::int64_t>(26, 1000);
  std::int64_t features = 16;
  std::vector<std::int64_t> bottom{512, 256, 64};
  std::vector<std::int64_t> top{512, 256};

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {dense + static_cast<std::int64_t>(vocabularies.size())}; }
};

}  // namespace lockstep
