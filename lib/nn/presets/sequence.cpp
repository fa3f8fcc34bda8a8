// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/presets.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lockstep {
namespace {

/// The dropout entry with this number, counted from 1; empty if `rate` is 0.
std::string dropout_layer(double rate, std::int64_t number) {
  return rate > 0 ? fmt::format("- {{dropout: {{rate: {}}}, name: dropout{}}}\n", rate, number) : "";
}

}  // namespace

void BlocksConfig::describe(Fields& fields) {
  fields.integer("d_model", d_model, {1, 1e6}, "width of the model: number of features of each position");
  fields.integer("depth", depth, {1, 1000}, "number of blocks, each of attention and two linear layers");
  fields.integer("heads", heads, {1, 1e4},
                 "number of attention heads of each block, each with d_model / heads features");
  fields.number("dropout", dropout, fraction_below_one,
                "dropout probability after the position embedding, each attention and each MLP (0: no dropout layers)");
  fields.number("initial_std", initial_std, {0, 1e6, true}, "standard deviation of the initial weights");
  fields.check(d_model % heads == 0, "heads",
               fmt::format("{} features cannot be divided among {} heads; use a divisor of d_model", d_model, heads));
}

std::string BlocksConfig::blocks(const BlockForm& form) const {
  // The name of a layer, or of the dropout that follows it.
  const auto last = [&](const std::string& name, std::int64_t number) {
    return dropout > 0 ? fmt::format("dropout{}", number) : name;
  };
  std::string text, trunk = last("positions", 1);
  for (std::int64_t i = 1; i <= depth; ++i) {
    const std::string block = fmt::format("block{}", i);
    text += fmt::format(
        "- {{layer_norm: {{}}, name: {0}_norm1, from: {1}}}\n"
        "- {{attention: {{heads: {2}, causal: {3}, initial_std: {4}, out_initial_std: {5}}}, name: {0}_attention}}\n{6}"
        "- {{add: {{}}, name: {0}_middle, from: [{1}, {7}]}}\n",
        block, trunk, heads, form.causal, initial_std, form.residual_std, dropout_layer(dropout, 2 * i),
        last(block + "_attention", 2 * i));
    text += fmt::format(
        "- {{layer_norm: {{}}, name: {0}_norm2}}\n"
        "- {{linear: {{features: {1}, initial_std: {2}}}, name: {0}_fc1}}\n"
        "- {3}\n"
        "- {{linear: {{features: {4}, initial_std: {5}}}, name: {0}_fc2}}\n{6}"
        "- {{add: {{}}, name: {0}, from: [{0}_middle, {7}]}}\n",
        block, 4 * d_model, initial_std, form.gelu, d_model, form.residual_std, dropout_layer(dropout, 2 * i + 1),
        last(block + "_fc2", 2 * i + 1));
    trunk = block;
  }
  return text + "- {layer_norm: {}, name: norm}\n";
}

void TransformerConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 1e9}, "number of distinct tokens");
  fields.integer("sequence", sequence, {1, 1e6},
                 "number of tokens of an example, each at a position with a learned embedding");
  BlocksConfig::describe(fields);
}

std::string TransformerConfig::decoder(const BlockForm& form) const {
  return fmt::format(
             "- {{embedding: {{vocabulary: {}, features: {}, initial_std: {}}}, name: tokens}}\n"
             "- {{position_embedding: {{length: {}, initial_std: {}}}, name: positions}}\n",
             vocabulary, d_model, initial_std, sequence, initial_std) +
         dropout_layer(dropout, 1) + blocks(form);
}

std::string TransformerConfig::list() const {
  return decoder({.residual_std = initial_std}) +
         fmt::format("- {{linear: {{features: {}, initial_std: {}}}, name: fc}}\n", vocabulary, initial_std);
}

Gpt2Config::Gpt2Config() {
  vocabulary = 50257;
  sequence = 1024;
  choose_size();
}

void Gpt2Config::choose_size() {
  struct Extents {
    std::int64_t d_model, depth, heads;
  };
  static constexpr Extents sizes[] = {{768, 12, 12}, {1024, 24, 16}, {1280, 36, 20}, {1600, 48, 25}};
  const Extents& chosen = sizes[static_cast<std::size_t>(size)];
  d_model = chosen.d_model;
  depth = chosen.depth;
  heads = chosen.heads;
}

void Gpt2Config::describe(Fields& fields) {
  static constexpr std::string_view names[] = {"124M", "355M", "774M", "1558M"};
  const Size before = size;
  fields.choice(
      "size", size, names,
      "size of the model by its number of parameters, which sets d_model, depth and heads unless they are given");
  if (size != before) choose_size();
  TransformerConfig::describe(fields);
}

std::string Gpt2Config::list() const {
  return decoder({.gelu = "gelu: tanh", .residual_std = initial_std / std::sqrt(2.0 * static_cast<double>(depth))}) +
         fmt::format("- {{linear: {{features: {}, bias: false, tied_to: tokens}}, name: fc}}\n", vocabulary);
}

VitConfig::VitConfig() {
  d_model = 192;
  depth = 12;
  heads = 3;
}

void VitConfig::describe(Fields& fields) {
  fields.integer("image", image, {1, 1e5}, "height and width of the images in pixels");
  fields.integer("channels", channels, {1, 1e5}, "number of channels of the images");
  fields.integer("patch", patch, {1, 1e5},
                 "height and width of a patch in pixels; each patch becomes a position of the sequence");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
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
         dropout_layer(dropout, 1) + blocks({.causal = false, .residual_std = initial_std}) +
         fmt::format("- global_avg_pool\n- {{linear: {{features: {}, initial_std: {}}}, name: fc}}\n", classes,
                     initial_std);
}

void LstmPresetConfig::describe(Fields& fields) {
  fields.integer("vocabulary", vocabulary, {1, 1e9}, "number of distinct tokens");
  fields.integer("sequence", sequence, {1, 1e6}, "number of tokens of an example");
  fields.integer("embedding", embedding, {1, 1e6}, "number of features of the embedding of a token");
  fields.integer("units", units, {1, 1e6}, "number of hidden units of each LSTM layer");
  fields.integer("depth", depth, {1, 1000},
                 "number of LSTM layers, each of which reads the hidden states of the one before");
  fields.number("dropout", dropout, fraction_below_one,
                "dropout probability after the embedding and each LSTM layer (0: no dropout layers)");
}

std::string LstmPresetConfig::list() const {
  std::string text = fmt::format("- {{embedding: {{vocabulary: {}, features: {}}}, name: tokens}}\n", vocabulary,
                                 embedding);
  text += dropout_layer(dropout, 1);
  for (std::int64_t i = 1; i <= depth; ++i)
    text += fmt::format("- {{lstm: {{units: {}}}, name: lstm{}}}\n", units, i) + dropout_layer(dropout, i + 1);
  return text + fmt::format("- {{linear: {{features: {}}}, name: fc}}\n", vocabulary);
}

}  // namespace lockstep
