// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

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

}  // namespace lockstep
