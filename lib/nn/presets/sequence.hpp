// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/presets.hpp"

namespace lockstep {

/// A decoder as GPT-2's (Radford et al. 2019): token and learned position embeddings, blocks of
/// x + attention(norm(x)) and x + mlp(norm(x)) with gelu between 4·d_model units, a last norm, a linear
/// layer over the vocabulary. Weights start from N(0, initial_std²), biases at 0.
struct TransformerConfig : PresetConfig {
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 128;
  std::int64_t d_model = 256;
  std::int64_t depth = 4;
  std::int64_t heads = 8;
  double initial_std = 0.02;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {sequence}; }
};

/// A language model: embedding, LSTM layers (Hochreiter & Schmidhuber 1997), a linear layer over the vocabulary.
struct LstmPresetConfig : PresetConfig {
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 128;
  std::int64_t embedding = 128;
  std::int64_t units = 256;
  std::int64_t depth = 1;

  void describe(Fields& fields) override;
  std::string list() const override;
  std::vector<std::int64_t> input() const override { return {sequence}; }
};

}  // namespace lockstep
