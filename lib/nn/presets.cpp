// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets.hpp"

#include "nn/layer_factory.hpp"
#include "nn/layers/conv2d.hpp"
#include "nn/layers/elementwise.hpp"
#include "nn/layers/linear.hpp"
#include "nn/layers/pool.hpp"

namespace lockstep {
namespace {

ListItem linear(std::int64_t features, std::string name) {
  auto config = std::make_shared<LinearConfig>();
  config->features = features;
  return layer_item("linear", config, std::move(name));
}

ListItem conv5(std::int64_t filters, std::string name) {
  auto config = std::make_shared<Conv2dConfig>();
  config->filters = filters;
  config->kernel = 5;
  config->padding.reset();
  return layer_item("conv2d", config, std::move(name));
}

ListItem max_pool2() {
  auto config = std::make_shared<MaxPoolConfig>();
  config->kernel = 2;
  return layer_item("max_pool", config);
}

ListItem relu() { return layer_item("relu", std::make_shared<ReluConfig>()); }
ListItem flatten() { return layer_item("flatten", std::make_shared<FlattenConfig>()); }

}  // namespace

void FcConfig::describe(Fields& fields) {
  fields.integers("features", features, {1, 1e9}, "outputs of each linear layer; the last one is the network's");
  fields.check(!features.empty(), "features", "the list is empty; give at least the number of outputs");
}

std::vector<ListItem> FcConfig::layers() const {
  std::vector<ListItem> items{flatten()};
  for (std::size_t i = 0; i < features.size(); ++i) {
    items.push_back(linear(features[i], "fc" + std::to_string(i + 1)));
    if (i + 1 < features.size()) items.push_back(relu());
  }
  return items;
}

void SimpleCnnConfig::describe(Fields& fields) {
  fields.integer("filters1", filters1, {1, 1e9}, "output channels of the first convolution");
  fields.integer("filters2", filters2, {1, 1e9}, "output channels of the second convolution");
  fields.integer("hidden", hidden, {1, 1e9}, "outputs of the first linear layer");
  fields.integer("classes", classes, {1, 1e9}, "outputs of the network");
}

std::vector<ListItem> SimpleCnnConfig::layers() const {
  return {conv5(filters1, "conv1"), relu(), max_pool2(), conv5(filters2, "conv2"), relu(), max_pool2(),
          flatten(), linear(hidden, "fc1"), relu(), linear(classes, "fc2")};
}

std::span<const Alternative> preset_alternatives() {
  static const Alternative table[] = {
      {"fc", "Fully connected network: linear layers with relu between them", make_config<FcConfig>},
      {"simple_cnn", "Two 5×5 convolutions with pooling, then two linear layers", make_config<SimpleCnnConfig>},
  };
  return table;
}

}  // namespace lockstep
