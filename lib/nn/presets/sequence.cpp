// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/sequence.hpp"

#include <fmt/format.h>

namespace lockstep {

void BlocksConfig::describe(Fields& fields) {
  fields.integer("d_model", d_model, {1, 1e6}, "features of a position between the layers");
  fields.integer("depth", depth, {1, 1000}, "blocks of attention and two linear layers");
  fields.integer("heads", heads, {1, 1e4}, "attention heads of a block, each of d_model / heads features");
  fields.number(
      "dropout", dropout, fraction_below_one,
      "share of the features that is dropped in training behind the positions, each attention and each block (0: no "
      "dropout layers)");
  fields.number("initial_std", initial_std, {0, 1e6, true}, "standard deviation of the weights at the start");
  fields.check(d_model % heads == 0, "heads",
               fmt::format("{} features cannot be shared out to {} heads; use a divisor of d_model", d_model, heads));
}

std::string BlocksConfig::dropout_layer(std::int64_t number) const {
  return dropout > 0 ? fmt::format("- {{dropout: {{rate: {}}}, name: dropout{}}}\n", dropout, number) : "";
}

std::string BlocksConfig::blocks(bool causal) const {
  // Of a layer, or the dropout behind it.
  const auto last = [&](const std::string& name, std::int64_t number) {
    return dropout > 0 ? fmt::format("dropout{}", number) : name;
  };
  std::string text, trunk = last("positions", 1);
  for (std::int64_t i = 1; i <= depth; ++i) {
    const std::string block = fmt::format("block{}", i);
    text += fmt::format(
        "- {{layer_norm: {{}}, name: {0}_norm1, from: {1}}}\n"
        "- {{attention: {{heads: {2}, initial_std: {3}{4}}}, name: {0}_attention}}\n{5}"
        "- {{add: {{}}, name: {0}_middle, from: [{1}, {6}]}}\n",
        block, trunk, heads, initial_std, causal ? "" : ", causal: false", dropout_layer(2 * i),
        last(block + "_attention", 2 * i));
    text += fmt::format(
        "- {{layer_norm: {{}}, name: {0}_norm2}}\n"
        "- {{linear: {{features: {1}, initial_std: {2}}}, name: {0}_fc1}}\n"
        "- gelu\n"
        "- {{linear: {{features: {3}, initial_std: {2}}}, name: {0}_fc2}}\n{4}"
        "- {{add: {{}}, name: {0}, from: [{0}_middle, {5}]}}\n",
        block, 4 * d_model, initial_std, d_model, dropout_layer(2 * i + 1), last(block + "_fc2", 2 * i + 1));
    trunk = block;
  }
  return text + "- {layer_norm: {}, name: norm}\n";
}

void TransformerConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 1e9}, "different tokens");
  fields.integer("sequence", sequence, {1, 1e6}, "tokens of an example: positions that are learned");
  BlocksConfig::describe(fields);
}

std::string TransformerConfig::list() const {
  return fmt::format(
             "- {{embedding: {{vocabulary: {}, features: {}, initial_std: {}}}, name: tokens}}\n"
             "- {{position_embedding: {{length: {}, initial_std: {}}}, name: positions}}\n",
             vocabulary, d_model, initial_std, sequence, initial_std) +
         dropout_layer(1) + blocks(true) +
         fmt::format("- {{linear: {{features: {}, initial_std: {}}}, name: fc}}\n", vocabulary, initial_std);
}

VitConfig::VitConfig() {
  d_model = 192;
  depth = 12;
  heads = 3;
}

void VitConfig::describe(Fields& fields) {
  fields.integer("image", image, {1, 1e5}, "height and width of the images");
  fields.integer("channels", channels, {1, 1e5}, "of the images");
  fields.integer("patch", patch, {1, 1e5}, "height and width of a patch, which becomes a position of the sequence");
  fields.integer("classes", classes, {1, 1e9}, "outputs of the network");
  BlocksConfig::describe(fields);
  fields.check(
      image % patch == 0, "patch",
      fmt::format("images of {0}×{0} cannot be cut into patches of {1}×{1}; use a divisor of image", image, patch));
}

std::string VitConfig::list() const {
  const std::int64_t side = image / patch;
  return fmt::format(
             "- {{conv2d: {{filters: {0}, kernel: {1}, stride: {1}}}, name: patches}}\n"
             "- sequence\n"
             "- {{position_embedding: {{length: {2}, initial_std: {3}}}, name: positions}}\n",
             d_model, patch, side * side, initial_std) +
         dropout_layer(1) + blocks(false) +
         fmt::format("- global_avg_pool\n- {{linear: {{features: {}, initial_std: {}}}, name: fc}}\n", classes,
                     initial_std);
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
