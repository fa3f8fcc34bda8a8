// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/convolutional.hpp"

#include <fmt/format.h>

namespace lockstep {

void FcConfig::describe(Fields& fields) {
  fields.integers("features", features, {1, 1e9}, "outputs of each linear layer; the last one is the network's");
  fields.check(!features.empty(), "features", "the list is empty; give at least the number of outputs");
}

std::string FcConfig::list() const {
  std::string text = "- flatten\n";
  for (std::size_t i = 0; i < features.size(); ++i)
    text += fmt::format("{}- {{linear: {{features: {}}}, name: fc{}}}\n", i > 0 ? "- relu\n" : "", features[i], i + 1);
  return text;
}

void SimpleCnnConfig::describe(Fields& fields) {
  fields.integer("filters1", filters1, {1, 1e9}, "output channels of the first convolution");
  fields.integer("filters2", filters2, {1, 1e9}, "output channels of the second convolution");
  fields.integer("hidden", hidden, {1, 1e9}, "outputs of the first linear layer");
  fields.integer("classes", classes, {1, 1e9}, "outputs of the network");
}

std::string SimpleCnnConfig::list() const {
  return fmt::format(R"(- {{conv2d: {{filters: {}, kernel: 5, padding: same}}, name: conv1}}
- relu
- max_pool: {{kernel: 2}}
- {{conv2d: {{filters: {}, kernel: 5, padding: same}}, name: conv2}}
- relu
- max_pool: {{kernel: 2}}
- flatten
- {{linear: {{features: {}}}, name: fc1}}
- relu
- {{linear: {{features: {}}}, name: fc2}}
)",
                     filters1, filters2, hidden, classes);
}

void Vgg11Config::describe(Fields& fields) {
  fields.integer("width", width, {1, 1e6}, "channels of the first stage; later ones have 2, 4, 8 and 8 times as many");
  fields.integer("hidden", hidden, {1, 1e9}, "outputs of the first two linear layers");
  fields.integer("classes", classes, {1, 1e9}, "outputs of the network");
  fields.number("dropout", dropout, fraction_below_one,
                "share of the hidden outputs that is dropped in training (0: no dropout layers)");
}

std::string Vgg11Config::list() const {
  std::string text;
  int number = 0;
  for (const auto& [factor, convolutions] :
       {std::pair(1, 1), std::pair(2, 1), std::pair(4, 2), std::pair(8, 2), std::pair(8, 2)}) {
    for (int i = 0; i < convolutions; ++i)
      text += fmt::format(
          "- {{conv2d: {{filters: {}, kernel: 3, padding: same, initializer: he}}, name: conv{}}}\n- relu\n",
          factor * width, ++number);
    text += "- max_pool: {kernel: 2}\n";
  }
  text += "- flatten\n";
  for (const int layer : {1, 2}) {
    text += fmt::format("- {{linear: {{features: {}, initializer: he}}, name: fc{}}}\n- relu\n", hidden, layer);
    if (dropout > 0) text += fmt::format("- dropout: {{rate: {}}}\n", dropout);
  }
  return text + fmt::format("- {{linear: {{features: {}, initializer: he}}, name: fc3}}\n", classes);
}

}  // namespace lockstep
