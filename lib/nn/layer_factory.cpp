// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layer.hpp"

#include "nn/layers/attention.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/elementwise.hpp"
#include "nn/layers/embedding.hpp"
#include "nn/layers/linear.hpp"
#include "nn/layers/norm.hpp"
#include "nn/layers/pool.hpp"
#include "nn/layers/recurrent.hpp"
#include "nn/layers/shape.hpp"

namespace lockstep {

std::span<const Alternative> layer_alternatives() {
  static const Alternative table[] = {
      {"linear", "Fully connected layer, y = x·Wᵀ + b, over vectors or each position of sequences",
       make_config<LinearConfig>},
      {"conv1d", "Convolution over sequences, T×C", make_config<Conv1dConfig>},
      {"conv2d", "Convolution over images, H×W×C", make_config<Conv2dConfig>},
      {"conv3d", "Convolution over volumes, D×H×W×C", make_config<Conv3dConfig>},
      {"conv_transpose2d", "Transposed convolution over images, H×W×C, which makes them larger",
       make_config<ConvTranspose2dConfig>},
      {"batch_norm", "Normalizes each channel to mean 0 and variance 1 over the batch, then scales and shifts it",
       make_config<BatchNormConfig>},
      {"layer_norm", "Normalizes the channels at each position to mean 0 and variance 1, then scales and shifts them",
       make_config<LayerNormConfig>},
      {"rms_norm", "Normalizes the channels at each position to mean square 1, then scales them",
       make_config<RmsNormConfig>},
      {"group_norm",
       "Normalizes each group of channels of an example to mean 0 and variance 1, then scales and shifts it",
       make_config<GroupNormConfig>},
      {"relu", "max(x, 0)", make_config<ReluConfig>},
      {"gelu", "x·Φ(x), exactly by erf or approximately by tanh", make_config<GeluConfig>},
      {"silu", "x/(1 + e^−x)", make_config<SiluConfig>},
      {"leaky_relu", "x, or slope·x below 0", make_config<LeakyReluConfig>},
      {"elu", "x, or alpha·(e^x − 1) below 0", make_config<EluConfig>},
      {"tanh", "Hyperbolic tangent", make_config<TanhConfig>},
      {"sigmoid", "1/(1 + e^−x)", make_config<SigmoidConfig>},
      {"softmax", "Softmax over the last dimension; the loss cross_entropy needs none before it",
       make_config<SoftmaxConfig>},
      {"max_pool", "Largest value in each window of images", make_config<PoolConfigOf<PoolingKind::max, 2>>},
      {"avg_pool", "Mean over each window of images", make_config<PoolConfigOf<PoolingKind::average, 2>>},
      {"max_pool1d", "Largest value in each window of sequences", make_config<PoolConfigOf<PoolingKind::max, 1>>},
      {"avg_pool1d", "Mean over each window of sequences", make_config<PoolConfigOf<PoolingKind::average, 1>>},
      {"max_pool3d", "Largest value in each window of volumes", make_config<PoolConfigOf<PoolingKind::max, 3>>},
      {"avg_pool3d", "Mean over each window of volumes", make_config<PoolConfigOf<PoolingKind::average, 3>>},
      {"global_avg_pool", "Mean of each channel, which makes vectors of images, sequences and volumes",
       make_config<GlobalAvgPoolConfig>},
      {"upsample", "Enlarges images by an integer factor, repeating each pixel", make_config<UpsampleConfig>},
      {"flatten", "Flattens images to vectors, in the order H, W, C", make_config<FlattenConfig>},
      {"sequence", "Turns the pixels of images into positions of sequences, row by row", make_config<SequenceConfig>},
      {"reshape", "Gives the values of an example another shape, in the same order", make_config<ReshapeConfig>},
      {"permute", "Reorders the axes of an example, as a transpose does", make_config<PermuteConfig>},
      {"slice", "Keeps a contiguous part of one axis", make_config<SliceConfig>},
      {"patchify", "Turns square patches of images into positions of sequences, row by row",
       make_config<PatchifyConfig>},
      {"sum", "Sum over some axes, which are removed from the output", make_config<SumConfig>},
      {"mean", "Mean over some axes, which are removed from the output", make_config<MeanConfig>},
      {"dropout", "Sets elements to 0 at random in training, and scales the others by 1/(1 − rate)",
       make_config<DropoutConfig>},
      {"add", "Sum of two or more inputs, as at the end of a residual branch", make_config<AddConfig>},
      {"multiply", "Product of two inputs, element by element", make_config<MultiplyConfig>},
      {"concat", "Concatenates two or more inputs along the last dimension", make_config<ConcatConfig>},
      {"embedding", "Learned vector for each token of a sequence", make_config<EmbeddingConfig>},
      {"embedding_tables",
       "Learned vector for each category of an example: its row, by number, in the table of that category",
       make_config<EmbeddingTablesConfig>},
      {"dot_interaction", "Concatenates a vector with the dot products of all pairs of it and other vectors",
       make_config<DotInteractionConfig>},
      {"position_embedding", "Adds a learned vector to each position of a sequence",
       make_config<PositionEmbeddingConfig>},
      {"position_encoding",
       "Adds sines and cosines to each position of a sequence, without parameters (Vaswani et al. 2017)",
       make_config<PositionEncodingConfig>},
      {"attention", "Multi-head self-attention over sequences", make_config<AttentionConfig>},
      {"cross_attention", "Multi-head attention from the positions of one sequence to those of another, its memory",
       make_config<CrossAttentionConfig>},
      {"lstm", "Long short-term memory over sequences, which outputs the hidden state of each position",
       make_config<LstmConfig>},
      {"gru", "Gated recurrent units over sequences, which output the hidden state of each position",
       make_config<GruConfig>},
  };
  return table;
}

}  // namespace lockstep
