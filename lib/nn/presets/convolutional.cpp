// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/presets.hpp"

#include <fmt/format.h>

namespace lockstep {

void SimpleCnnConfig::describe(Fields& fields) {
  fields.integer("filters1", filters1, {1, 1e9}, "number of output channels of the first convolution");
  fields.integer("filters2", filters2, {1, 1e9}, "number of output channels of the second convolution");
  fields.integer("hidden", hidden, {1, 1e9}, "number of outputs of the first linear layer");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
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
  fields.integer("width", width, {1, 1e6},
                 "number of channels of the first stage; the later ones have 2, 4, 8 and 8 times as many");
  fields.integer("hidden", hidden, {1, 1e9}, "number of outputs of each of the first two linear layers");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
  fields.number("dropout", dropout, fraction_below_one,
                "dropout probability of the outputs of the first two linear layers (0: no dropout layers)");
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

void UnetConfig::describe(Fields& fields) {
  fields.integer("image", image, {1, 1e5}, "height and width of the images in pixels");
  fields.integer("channels", channels, {1, 1e5}, "number of channels of the images");
  fields.integer("depth", depth, {1, 12}, "number of times that height and width are halved, and then doubled again");
  fields.integer("width", width, {1, 1e6},
                 "number of channels of the first stage; each halving of the image doubles it");
  fields.integer("classes", classes, {1, 1e9}, "number of classes of a pixel (outputs of the network at each pixel)");
  fields.check(
      image % (std::int64_t{1} << depth) == 0, "image",
      fmt::format("{} pixels cannot be halved {} times; use a multiple of {}", image, depth, std::int64_t{1} << depth));
}

std::string UnetConfig::list() const {
  std::string text;
  const auto stage = [&](const std::string& name, std::int64_t filters) {
    for (const int i : {1, 2})
      text += fmt::format(
          "- {{conv2d: {{filters: {}, kernel: 3, padding: same, initializer: he}}, name: {}_conv{}}}\n"
          "- {{relu: {{}}, name: {}{}}}\n",
          filters, name, i, name, i == 1 ? "_relu" : "");
  };
  for (std::int64_t i = 1; i <= depth; ++i) {
    stage(fmt::format("down{}", i), width << (i - 1));
    text += "- max_pool: {kernel: 2}\n";
  }
  stage("bottom", width << depth);
  for (std::int64_t i = depth; i >= 1; --i) {
    text += fmt::format(
        "- {{conv_transpose2d: {{filters: {0}, kernel: 2, stride: 2}}, name: up{1}_conv}}\n"
        "- {{concat: {{}}, from: [down{1}, up{1}_conv]}}\n",
        width << (i - 1), i);
    stage(fmt::format("stage{}", i), width << (i - 1));
  }
  return text + fmt::format("- {{conv2d: {{filters: {}, kernel: 1}}, name: head}}\n", classes);
}

void SpeechCnnConfig::describe(Fields& fields) {
  fields.integer("samples", samples, {1, 1e9}, "number of samples of a signal");
  fields.integer(
      "width", width, {1, 1e6},
      "number of channels of the first two convolutions; the third has twice and the fourth four times as many");
  fields.integer("kernel", kernel, {1, 1024},
                 "kernel size of the first convolution in samples; that of the others is 3");
  fields.integer("stride", stride, {1, 1024}, "stride of the first convolution in samples");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
}

std::string SpeechCnnConfig::list() const {
  std::string text;
  int number = 0;
  for (const int factor : {1, 1, 2, 4}) {
    const bool first = ++number == 1;
    text += fmt::format(
        "- {{conv1d: {{filters: {}, kernel: {}, stride: {}, padding: same, bias: false, initializer: he}}, "
        "name: conv{}}}\n"
        "- {{batch_norm: {{}}, name: norm{}}}\n- relu\n- max_pool1d: 4\n",
        factor * width, first ? kernel : 3, first ? stride : 1, number, number);
  }
  return text + fmt::format("- global_avg_pool\n- {{linear: {{features: {}}}, name: fc}}\n", classes);
}

}  // namespace lockstep
