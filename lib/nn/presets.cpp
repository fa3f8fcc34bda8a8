// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets.hpp"

#include "nn/layer_factory.hpp"
#include "nn/presets/convolutional.hpp"
#include "nn/presets/recommender.hpp"
#include "nn/presets/residual.hpp"
#include "nn/presets/sequence.hpp"

namespace lockstep {
namespace {

struct LayerListConfig : Config {
  std::vector<ListItem> layers;
  void describe(Fields& fields) override { fields.list_of("layers", layers, layer_alternatives(), ""); }
};

}  // namespace

std::vector<ListItem> PresetConfig::layers() const {
  LayerListConfig config;
  try {
    read_config(parse_deck("layers:\n" + list(), "preset"), config);
  } catch (const DeckError& error) {  // its position refers to text that the user does not see
    throw DeckError(position, path,
                    fmt::format("makes a network that cannot be ({}); change its options", error.what()));
  }
  for (const ListItem& item : config.layers) {
    item.config->position = position;
    item.config->path = path;
  }
  return std::move(config.layers);
}

std::span<const Alternative> preset_alternatives() {
  static const Alternative table[] = {
      {"fc", "Fully connected network: linear layers with relu between them", make_config<FcConfig>},
      {"simple_cnn", "Two 5×5 convolutions with pooling, then two linear layers", make_config<SimpleCnnConfig>},
      {"resnet8", "Residual network of 7 convolutions for 32×32 images", make_config<Resnet8Config>},
      {"resnet18_cifar", "ResNet-18 for 32×32 images", make_config<Resnet18CifarConfig>},
      {"resnet18", "ResNet-18 for 224×224 images", make_config<Resnet18Config>},
      {"resnet34", "ResNet-34 for 224×224 images", make_config<Resnet34Config>},
      {"resnet50", "ResNet-50 for 224×224 images", make_config<Resnet50Config>},
      {"resnet101", "ResNet-101 for 224×224 images", make_config<Resnet101Config>},
      {"wide_resnet", "Wide residual network, by default WRN-28-10, for 32×32 images", make_config<WideResnetConfig>},
      {"unet", "U-Net: a class for each pixel of images", make_config<UnetConfig>},
      {"speech_cnn", "M5: convolutions over signals", make_config<SpeechCnnConfig>},
      {"vgg11", "VGG-11 for 224×224 images", make_config<Vgg11Config>},
      {"transformer", "Decoder of pre-norm transformer blocks over tokens", make_config<TransformerConfig>},
      {"gpt2", "GPT-2: such a decoder in the sizes of the paper, the last layer with the embedding's weight",
       make_config<Gpt2Config>},
      {"vit", "Vision transformer over patches of images", make_config<VitConfig>},
      {"lstm", "Embedding, LSTM layers and a linear layer over tokens", make_config<LstmPresetConfig>},
      {"recommender", "Clicks, from values and categories: tables, MLPs and dot products",
       make_config<RecommenderConfig>},
  };
  return table;
}

}  // namespace lockstep
