// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/synthetic.hpp"

namespace lockstep {

void SyntheticConfig::describe(Fields& fields) {
  fields.integer("train", train, {1, 1e9}, "number of training examples");
  fields.integer("validation", validation, {0, 1e9}, "number of validation examples");
}

void GlyphsConfig::describe(Fields& fields) {
  SyntheticConfig::describe(fields);
  fields.number("noise", noise, fraction,
                "width of the uniform noise added to each pixel, as a share of the range of grey levels");
}

void PagesConfig::describe(Fields& fields) {
  SyntheticConfig::describe(fields);
  fields.number("noise", noise, fraction,
                "width of the uniform noise added to each pixel, as a share of the range of grey levels");
}

void LinearDataConfig::describe(Fields& fields) {
  SyntheticConfig::describe(fields);
  fields.integer("features", features, {1, 1e6}, "number of inputs of an example, each uniform in [-1, 1)");
  fields.integer("outputs", outputs, {1, 1e6},
                 "number of targets of an example; the weight of input j for target k is ((3k + j) mod 9 - 4) / 4");
  fields.number("noise", noise, not_negative, "standard deviation of the noise added to the targets");
  fields.check(static_cast<double>(features) * static_cast<double>(outputs) <= 1e8, "outputs",
               "times features is more than 1e8 (all of them are multiplied for each example); use fewer");
}

void ClicksConfig::describe(Fields& fields) {
  SyntheticConfig::describe(fields);
  fields.integer("dense", dense, {1, 1e6},
                 "number of dense values at the beginning of an example, each nearly N(0, 1)");
  fields.integers("vocabularies", vocabularies, {1, 1e6},
                  "number of rows of each table; after its dense values, an example has a row number for each table");
  fields.check(!vocabularies.empty(), "vocabularies", "the list is empty; give the number of rows of each table");
}

void RandomConfig::describe(Fields& fields) {
  static constexpr std::string_view types[] = {"f32", "u8"};
  SyntheticConfig::describe(fields);
  fields.integers("shape", shape, {1, 1e6},
                  "shape of an example: [features], [positions, channels], [height, width, channels] or [depth, "
                  "height, width, channels] (give this or vocabulary)");
  fields.integer("classes", classes, {1, 1e9}, "number of classes of the targets (when not given: 10)");
  fields.choice("type", type, types, "type of the inputs: f32, in [0, 1), or u8");
  fields.integer("vocabulary", vocabulary, {1, 1e9},
                 "number of distinct tokens: the inputs are random tokens, and the targets those that follow them");
  fields.integer("sequence_length", sequence_length, {1, 1e6}, "number of tokens of an example, with vocabulary");
  const char* const of_tokens =
      "cannot be combined with vocabulary (tokens need only vocabulary and sequence_length); remove one of them";
  fields.check(!vocabulary || shape.empty(), "shape", of_tokens);
  fields.check(!vocabulary || !classes, "classes", of_tokens);
  fields.check(!vocabulary || type == Type::f32, "type", of_tokens);
  fields.check(!vocabulary || sequence_length, "sequence_length",
               "is missing (tokens come in sequences); give their length");
  fields.check(vocabulary || !sequence_length, "sequence_length",
               "is given without vocabulary (only tokens come in sequences); give both, or remove it");
  if (vocabulary) return;
  fields.check(!shape.empty() && shape.size() <= 4, "shape",
               "must have one entry (features) to four (depth, height, width, channels); write [784] or [32, 32, 3]");
  double elements = 1;
  for (const auto extent : shape) elements *= static_cast<double>(extent);
  fields.check(elements <= 1e9, "shape", "is too large (an example has at most 1e9 numbers); make it smaller");
}

std::span<const Alternative> synthetic_kinds() {
  static const Alternative kinds[] = {
      {"glyphs", "Drawn digits, images 28×28×1 (u8) in ten classes", make_config<GlyphsConfig>},
      {"pages",
       "Up to four drawn digits on images 64×64×1 (u8), with a class for each pixel: 0 for paper, 1 + digit for ink",
       make_config<PagesConfig>},
      {"linear", "Targets that are a known linear function of the inputs, plus noise", make_config<LinearDataConfig>},
      {"clicks",
       "Clicks, for recommenders: inputs are dense values and row numbers of tables, targets 0 or 1 drawn with known "
       "probabilities",
       make_config<ClicksConfig>},
      {"random", "Random numbers of any shape in random classes, or random tokens; for benchmarks",
       make_config<RandomConfig>},
  };
  return kinds;
}

}  // namespace lockstep
