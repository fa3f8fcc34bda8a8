// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// Blocks of x + attention(norm(x)) and x + mlp(norm(x)), with gelu between 4·d_model units, and a last norm (Radford
/// et al. 2019). Weights start from N(0, initial_std²), biases at 0.
struct BlocksConfig : PresetConfig {
  std::int64_t d_model = 256;
  std::int64_t depth = 4;
  std::int64_t heads = 8;
  double dropout = 0;
  double initial_std = 0.02;

  void describe(Fields& fields) override;

 protected:
  /// In what kinds of blocks differ.
  struct BlockForm {
    bool causal = true;
    std::string_view gelu = "gelu";
    double residual_std;  ///< as initial_std, of the weights whose products are added to the trunk
  };
  /// The entries after the layer `positions`, or dropout 1.
  std::string blocks(const BlockForm& form) const;
};

/// A decoder: token and learned position embeddings, blocks, a linear layer over the vocabulary.
struct TransformerConfig : BlocksConfig {
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 128;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {sequence}; }

 protected:
  /// All entries but the last.
  std::string decoder(const BlockForm& form) const;
};

/// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): such a decoder whose last layer
/// has the embedding's weight and no bias, with the tanh form of gelu; what is added to the trunk starts from
/// N(0, initial_std² / (2·depth)).
struct Gpt2Config : TransformerConfig {
  /// By their numbers of parameters.
  enum class Size { m124, m355, m774, m1558 };
  Size size = Size::m124;

  Gpt2Config();
  void describe(Fields& fields) override;
  std::string list() const override;

 private:
  void choose_size();
};

/// A vision transformer (Dosovitskiy et al. 2021) over patches, with the mean of all positions in the place of a class
/// token (Beyer, Zhai and Kolesnikov 2022). By default ViT-Ti/16.
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

/// A language model: embedding, LSTM layers (Hochreiter & Schmidhuber 1997), a linear layer over the vocabulary;
/// dropout after the embedding and after each LSTM layer, not between its steps (Zaremba et al. 2014).
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

}  // namespace lockstep
