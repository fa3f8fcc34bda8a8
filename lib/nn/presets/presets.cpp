// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/presets/presets.hpp"

#include "nn/layer.hpp"

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
    throw DeckError(position, path, fmt::format("gives an invalid network ({}); change its options", error.what()));
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
      {"simple_cnn", "Two 5×5 convolutions with pooling, then two linear layers (Shallue et al. 2019)",
       make_config<SimpleCnnConfig>},
      {"resnet8", "Residual network of three basic blocks for 32×32 images (He et al. 2016)",
       make_config<Resnet8Config>},
      {"resnet18_cifar", "ResNet-18 with a 3×3 stem for 32×32 images (He et al. 2016)",
       make_config<Resnet18CifarConfig>},
      {"resnet18", "ResNet-18 for 224×224 images (He et al. 2016)", make_config<Resnet18Config>},
      {"resnet34", "ResNet-34 for 224×224 images (He et al. 2016)", make_config<Resnet34Config>},
      {"resnet50", "ResNet-50 for 224×224 images (He et al. 2016), with the stride in the 3×3 convolutions",
       make_config<Resnet50Config>},
      {"resnet101", "ResNet-101 for 224×224 images (He et al. 2016), with the stride in the 3×3 convolutions",
       make_config<Resnet101Config>},
      {"wide_resnet", "Wide residual network for 32×32 images, by default WRN-28-10 (Zagoruyko & Komodakis 2016)",
       make_config<WideResnetConfig>},
      {"unet", "U-Net, which predicts a class for each pixel of an image (Ronneberger et al. 2015)",
       make_config<UnetConfig>},
      {"speech_cnn", "M5: four 1D convolutions over signals (Dai et al. 2017)", make_config<SpeechCnnConfig>},
      {"vgg11", "VGG-11 for 224×224 images (Simonyan & Zisserman 2015)", make_config<Vgg11Config>},
      {"transformer", "Decoder-only transformer over tokens, with the norms before attention and MLP (pre-norm)",
       make_config<TransformerConfig>},
      {"gpt2",
       "GPT-2: decoder-only transformer in the sizes of the paper, whose last layer shares the token embedding's "
       "weight (Radford et al. 2019)",
       make_config<Gpt2Config>},
      {"vit",
       "Vision transformer over patches of images, by default ViT-Ti/16 with mean pooling (Dosovitskiy et al. 2021)",
       make_config<VitConfig>},
      {"lstm", "Language model over tokens: embedding, LSTM layers and a linear layer", make_config<LstmPresetConfig>},
      {"recommender",
       "DLRM, which predicts clicks from dense values and categories by embedding tables, MLPs and dot products "
       "(Naumov et al. 2019)",
       make_config<RecommenderConfig>},
  };
  return table;
}

}  // namespace lockstep
