// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/sequence.hpp"

#include <fmt/format.h>

namespace lockstep {

void TransformerConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 1e9}, "different tokens");
  fields.integer("sequence", sequence, {1, 1e6}, "tokens of an example: positions that are learned");
  fields.integer("d_model", d_model, {1, 1e6}, "features of a token between the layers");
  fields.integer("depth", depth, {1, 1000}, "blocks of attention and two linear layers");
  fields.integer("heads", heads, {1, 1e4}, "attention heads of a block, each of d_model / heads features");
  fields.number("initial_std", initial_std, {0, 1e6, true}, "standard deviation of the weights at the start");
  fields.check(d_model % heads == 0, "heads",
               fmt::format("{} features cannot be shared out to {} heads; use a divisor of d_model", d_model, heads));
}

std::string TransformerConfig::list() const {
  std::string text = fmt::format(
      "- {{embedding: {{vocabulary: {}, features: {}, initial_std: {}}}, name: tokens}}\n"
      "- {{position_embedding: {{length: {}, initial_std: {}}}, name: positions}}\n",
      vocabulary, d_model, initial_std, sequence, initial_std);
  std::string trunk = "positions";
  for (std::int64_t i = 1; i <= depth; ++i) {
    const std::string block = fmt::format("block{}", i);
    text += fmt::format(R"(- {{layer_norm: {{}}, name: {0}_norm1, from: {1}}}
- {{attention: {{heads: {2}, initial_std: {3}}}, name: {0}_attention}}
- {{add: {{}}, name: {0}_middle, from: [{1}, {0}_attention]}}
- {{layer_norm: {{}}, name: {0}_norm2}}
- {{linear: {{features: {4}, initial_std: {3}}}, name: {0}_fc1}}
- gelu
- {{linear: {{features: {5}, initial_std: {3}}}, name: {0}_fc2}}
- {{add: {{}}, name: {0}, from: [{0}_middle, {0}_fc2]}}
)",
                        block, trunk, heads, initial_std, 4 * d_model, d_model);
    trunk = block;
  }
  return text +
         fmt::format("- {{layer_norm: {{}}, name: norm}}\n- {{linear: {{features: {}, initial_std: {}}}, name: fc}}\n",
                     vocabulary, initial_std);
}

void LstmPresetConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 1e9}, "different tokens");
  fields.integer("sequence", sequence, {1, 1e6}, "tokens of an example");
  fields.integer("embedding", embedding, {1, 1e6}, "features of a token");
  fields.integer("units", units, {1, 1e6}, "hidden units of each LSTM layer");
  fields.integer("depth", depth, {1, 1000}, "LSTM layers, each over the hidden states of the one before");
}

std::string LstmPresetConfig::list() const {
  std::string text = fmt::format("- {{embedding: {{vocabulary: {}, features: {}}}, name: tokens}}\n", vocabulary,
                                 embedding);
  for (std::int64_t i = 1; i <= depth; ++i) text += fmt::format("- {{lstm: {{units: {}}}, name: lstm{}}}\n", units, i);
  return text + fmt::format("- {{linear: {{features: {}}}, name: fc}}\n", vocabulary);
}

}  // namespace lockstep
