// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/presets.hpp"

#include <fmt/ranges.h>

namespace lockstep {

void FcConfig::describe(Fields& fields) {
  fields.integers("features", features, {1, 1e9},
                  "number of outputs of each linear layer; the last one is the number of outputs of the network");
  fields.check(!features.empty(), "features", "the list is empty; give at least the number of outputs");
}

std::string FcConfig::list() const {
  std::string text = "- flatten\n";
  for (std::size_t i = 0; i < features.size(); ++i)
    text += fmt::format("{}- {{linear: {{features: {}}}, name: fc{}}}\n", i > 0 ? "- relu\n" : "", features[i], i + 1);
  return text;
}

void RecommenderConfig::describe(Fields& fields) {
  fields.integer("dense", dense, {1, 1e6},
                 "number of dense values at the beginning of an example, which a row number for each table follows");
  fields.integers("vocabularies", vocabularies, {1, 16777216}, "number of rows of each embedding table");
  fields.integer(
      "features", features, {1, 1e6},
      "length of the vectors whose dot products are taken: rows of the tables, and the output of the bottom MLP");
  fields.integers("bottom", bottom, {1, 1e9},
                  "number of outputs of each linear layer of the bottom MLP, which reads the dense values; one more "
                  "with `features` outputs follows");
  fields.integers("top", top, {1, 1e9},
                  "number of outputs of each linear layer of the top MLP, which reads the dot products; one more with "
                  "a single output, the logit, follows");
  fields.check(!vocabularies.empty(), "vocabularies", "the list is empty; give the number of rows of each table");
}

std::string RecommenderConfig::list() const {
  // Linear layers with these numbers of outputs, each followed by relu.
  const auto layers = [](std::string_view name, const std::vector<std::int64_t>& outputs) {
    std::string text;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      text += fmt::format("- {{linear: {}, name: {}{}}}\n- relu\n", outputs[i], name, i + 1);
    return text;
  };
  return fmt::format("- {{flatten: {{}}, name: example}}\n- {{slice: {{end: {}}}, name: dense}}\n", dense) +
         layers("bottom", bottom) +
         fmt::format(
             "- {{linear: {0}, name: bottom{1}}}\n- {{relu: {{}}, name: bottom}}\n"
             "- {{slice: {{begin: {2}}}, name: rows, from: example}}\n"
             "- {{embedding_tables: {{vocabularies: [{3}], features: {0}}}, name: tables}}\n"
             "- {{dot_interaction: {{}}, name: interaction, from: [bottom, tables]}}\n",
             features, bottom.size() + 1, dense, fmt::join(vocabularies, ", ")) +
         layers("top", top) + fmt::format("- {{linear: 1, name: top{}}}\n", top.size() + 1);
}

}  // namespace lockstep
