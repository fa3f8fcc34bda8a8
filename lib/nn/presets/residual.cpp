// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/presets.hpp"

#include <fmt/format.h>

namespace lockstep {
namespace {

/// Builds the text of the layer list, block by block.
class ResidualNetwork {
 public:
  explicit ResidualNetwork(bool zero_gamma) : zero_gamma_(zero_gamma) {}

  void stem(std::int64_t filters, int kernel, int stride) {
    convolution("stem", filters, kernel, stride, "");
    text_ += "- {relu: {}, name: stem}\n";
    channels_ = filters;
  }
  void max_pool() {
    text_ += "- {max_pool: {kernel: 3, stride: 2, padding: 1}, name: pool}\n";
    trunk_ = "pool";
  }
  /// `kernels` are those of the block's convolutions. The last convolution has `filters` channels, the others `filters`
  /// / `narrow`.
  void block(const std::string& name, std::int64_t filters, std::initializer_list<int> kernels, int narrow,
             int stride) {
    const std::string input = trunk_;
    std::size_t number = 0;
    bool strided = false;
    for (const int kernel : kernels) {
      const bool last = ++number == kernels.size();
      const bool takes_stride = !strided && kernel == 3;
      strided = strided || takes_stride;
      convolution(fmt::format("{}_{}", name, number), last ? filters : filters / narrow, kernel,
                  takes_stride ? stride : 1, number == 1 ? input : "", last && zero_gamma_);
      if (!last) text_ += "- relu\n";
    }
    std::string shortcut = input;
    if (stride != 1 || channels_ != filters) {
      shortcut = name + "_shortcut_norm";
      convolution(name + "_shortcut", filters, 1, stride, input);
    }
    text_ += fmt::format("- {{add: {{}}, from: [{}_{}_norm, {}]}}\n- {{relu: {{}}, name: {}}}\n", name, number,
                         shortcut, name);
    trunk_ = name;
    channels_ = filters;
  }
  std::string head(std::int64_t classes) {
    return text_ + fmt::format("- global_avg_pool\n- {{linear: {{features: {}}}, name: fc}}\n", classes);
  }

 private:
  /// Adds a convolution and its batch norm. Padding is kernel // 2 on each side, as in PyTorch.
  void convolution(const std::string& name, std::int64_t filters, int kernel, int stride, const std::string& from,
                   bool zero_gamma = false) {
    text_ += fmt::format(
        "- {{conv2d: {{filters: {}, kernel: {}, stride: {}, padding: {}, bias: false, initializer: he}}, "
        "name: {}_conv{}}}\n"
        "- {{batch_norm: {{zero_gamma: {}}}, name: {}_norm}}\n",
        filters, kernel, stride, kernel / 2, name, from.empty() ? "" : ", from: " + from, zero_gamma, name);
  }

  bool zero_gamma_;
  std::string text_;
  std::string trunk_ = "stem";
  std::int64_t channels_ = 0;
};

}  // namespace

void ResidualConfig::describe(Fields& fields) {
  fields.integer("width", width, {1, 1e6},
                 "number of channels of the stem and of the 3×3 convolutions of the first stage; each later stage has "
                 "twice as many as the one before");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
  fields.boolean("zero_gamma", zero_gamma,
                 "whether the weight of the last batch norm of each block starts at 0, so that the block starts as the "
                 "identity (Goyal et al. 2017)");
}

std::string Resnet8Config::list() const {
  ResidualNetwork network(zero_gamma);
  network.stem(width, 3, 1);
  for (const int stage : {1, 2, 3})
    network.block(fmt::format("stage{}", stage), width << (stage - 1), {3, 3}, 1, stage == 1 ? 1 : 2);
  return network.head(classes);
}

std::string Resnet18CifarConfig::list() const {
  ResidualNetwork network(zero_gamma);
  network.stem(width, 3, 1);
  for (const int stage : {1, 2, 3, 4})
    for (const int block : {1, 2})
      network.block(fmt::format("stage{}_{}", stage, block), width << (stage - 1), {3, 3}, 1,
                    stage > 1 && block == 1 ? 2 : 1);
  return network.head(classes);
}

std::string ImageNetResnetConfig::list() const {
  ResidualNetwork network(zero_gamma);
  network.stem(width, 7, 2);
  network.max_pool();
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 1; block <= blocks[stage]; ++block) {
      const std::string name = fmt::format("stage{}_{}", stage + 1, block);
      const int stride = stage > 0 && block == 1 ? 2 : 1;
      if (bottleneck) network.block(name, 4 * (width << stage), {1, 3, 1}, 4, stride);
      else network.block(name, width << stage, {3, 3}, 1, stride);
    }
  return network.head(classes);
}

void WideResnetConfig::describe(Fields& fields) {
  fields.integer("depth", depth, {10, 1e4},
                 "depth of the network: 4 + 6n for n blocks in each of the three stages (28: 4 blocks)");
  fields.integer("widening", widening, {1, 1e5},
                 "widening factor: the three stages have 16, 32 and 64 times this many channels");
  fields.integer("classes", classes, {1, 1e9}, "number of classes (outputs of the network)");
  fields.number("dropout", dropout, fraction_below_one,
                "dropout probability between the two convolutions of each block (0: no dropout layers)");
  fields.check(
      (depth - 4) % 6 == 0, "depth",
      fmt::format("{} convolutions do not make three stages of whole blocks; use 4 plus a multiple of 6, such as 28",
                  depth));
}

std::string WideResnetConfig::list() const {
  std::string text, trunk = "stem";
  const auto convolution = [&](const std::string& name, std::int64_t filters, int kernel, int stride,
                               const std::string& from) {
    text += fmt::format(
        "- {{conv2d: {{filters: {}, kernel: {}, stride: {}, padding: {}, bias: false, initializer: he}}, name: "
        "{}{}}}\n",
        filters, kernel, stride, kernel / 2, name, from.empty() ? "" : ", from: " + from);
  };
  convolution("stem", 16, 3, 1, "");
  std::int64_t channels = 16;
  for (int stage = 0; stage < 3; ++stage)
    for (std::int64_t i = 1; i <= (depth - 4) / 6; ++i) {
      const std::string block = fmt::format("stage{}_{}", stage + 1, i);
      const std::int64_t filters = (16 * widening) << stage;
      const int stride = stage > 0 && i == 1 ? 2 : 1;
      text += fmt::format("- {{batch_norm: {{}}, name: {0}_norm1, from: {1}}}\n- {{relu: {{}}, name: {0}_in}}\n", block,
                          trunk);
      convolution(block + "_conv1", filters, 3, stride, "");
      text += fmt::format("- {{batch_norm: {{}}, name: {}_norm2}}\n- relu\n", block);
      if (dropout > 0) text += fmt::format("- dropout: {{rate: {}}}\n", dropout);
      convolution(block + "_conv2", filters, 3, 1, "");
      std::string shortcut = trunk;
      if (channels != filters || stride != 1) {
        shortcut = block + "_shortcut";
        convolution(shortcut, filters, 1, stride, block + "_in");
      }
      text += fmt::format("- {{add: {{}}, from: [{0}_conv2, {1}], name: {0}}}\n", block, shortcut);
      trunk = block;
      channels = filters;
    }
  return text + fmt::format(
                    "- {{batch_norm: {{}}, name: norm}}\n- relu\n- global_avg_pool\n"
                    "- {{linear: {{features: {}}}, name: fc}}\n",
                    classes);
}

}  // namespace lockstep
