// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layer_factory.hpp"

#include "nn/layers/attention.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/conv_transpose2d.hpp"
#include "nn/layers/cross_attention.hpp"
#include "nn/layers/dot_interaction.hpp"
#include "nn/layers/elementwise.hpp"
#include "nn/layers/embedding.hpp"
#include "nn/layers/embedding_tables.hpp"
#include "nn/layers/group_norm.hpp"
#include "nn/layers/layer_norm.hpp"
#include "nn/layers/linear.hpp"
#include "nn/layers/pointwise.hpp"
#include "nn/layers/pool.hpp"
#include "nn/layers/rearrange.hpp"
#include "nn/layers/recurrent.hpp"
#include "nn/layers/reduce.hpp"
#include "nn/layers/softmax.hpp"

namespace lockstep {

std::span<const Alternative> layer_alternatives() {
  static const Alternative table[] = {
      {"linear", "Fully connected: y = x·Wᵀ + b over vectors, or each position of sequences",
       make_config<LinearConfig>},
      {"conv1d", "Convolution over sequences, T×C", make_config<Conv1dConfig>},
      {"conv2d", "Convolution over images, H×W×C", make_config<Conv2dConfig>},
      {"conv3d", "Convolution over volumes, D×H×W×C", make_config<Conv3dConfig>},
      {"conv_transpose2d", "Transposed convolution over images, H×W×C: larger ones of small ones",
       make_config<ConvTranspose2dConfig>},
      {"batch_norm", "Gives each channel mean 0 and variance 1 over the batch, then scales and shifts it",
       make_config<BatchNormConfig>},
      {"layer_norm", "Gives the channels of each place mean 0 and variance 1, then scales and shifts them",
       make_config<LayerNormConfig>},
      {"rms_norm", "Gives the channels of each place mean square 1, then scales them", make_config<RmsNormConfig>},
      {"group_norm", "Gives each group of an example's channels mean 0 and variance 1, then scales and shifts it",
       make_config<GroupNormConfig>},
      {"relu", "max(x, 0)", make_config<ReluConfig>},
      {"gelu", "x·Φ(x), exact by erf, or by a tanh", make_config<GeluConfig>},
      {"silu", "x/(1 + e^−x)", make_config<SiluConfig>},
      {"leaky_relu", "x, times a small slope below 0", make_config<LeakyReluConfig>},
      {"elu", "x, or α·(e^x − 1) below 0", make_config<EluConfig>},
      {"tanh", "Hyperbolic tangent", make_config<TanhConfig>},
      {"sigmoid", "1/(1 + e^−x)", make_config<SigmoidConfig>},
      {"softmax", "e^x over the sum of them along the last extent", make_config<SoftmaxConfig>},
      {"max_pool", "Largest value of each window", make_config<PoolConfigOf<PoolingKind::max, 2>>},
      {"avg_pool", "Mean of each window", make_config<PoolConfigOf<PoolingKind::average, 2>>},
      {"max_pool1d", "Largest value of each window of sequences", make_config<PoolConfigOf<PoolingKind::max, 1>>},
      {"avg_pool1d", "Mean of each window of sequences", make_config<PoolConfigOf<PoolingKind::average, 1>>},
      {"max_pool3d", "Largest value of each window of volumes", make_config<PoolConfigOf<PoolingKind::max, 3>>},
      {"avg_pool3d", "Mean of each window of volumes", make_config<PoolConfigOf<PoolingKind::average, 3>>},
      {"global_avg_pool", "Mean of each channel: images, sequences and volumes become vectors",
       make_config<GlobalAvgPoolConfig>},
      {"upsample", "Images of several times the height and width, by the nearest pixel", make_config<UpsampleConfig>},
      {"flatten", "Images as vectors, in the order H, W, C", make_config<FlattenConfig>},
      {"sequence", "The pixels of images as positions of sequences, row by row", make_config<SequenceConfig>},
      {"reshape", "The same numbers under another shape", make_config<ReshapeConfig>},
      {"permute", "Axes in another order: a transpose", make_config<PermuteConfig>},
      {"slice", "A stretch of an axis", make_config<SliceConfig>},
      {"patchify", "Square patches of images as positions of sequences, row by row", make_config<PatchifyConfig>},
      {"sum", "Sum over some axes", make_config<SumConfig>},
      {"mean", "Mean over some axes", make_config<MeanConfig>},
      {"dropout", "Drops elements at random in training, and scales the rest by 1/(1 − rate)",
       make_config<DropoutConfig>},
      {"add", "Sum of two or more inputs: the end of a residual branch", make_config<AddConfig>},
      {"multiply", "Product of two inputs, element by element", make_config<MultiplyConfig>},
      {"concat", "Two or more inputs side by side along the last extent", make_config<ConcatConfig>},
      {"embedding", "A vector for each token of a sequence", make_config<EmbeddingConfig>},
      {"embedding_tables", "A vector for each category of an example: rows of tables, by row numbers",
       make_config<EmbeddingTablesConfig>},
      {"dot_interaction", "A vector, and the dot products of all pairs among it and other vectors",
       make_config<DotInteractionConfig>},
      {"position_embedding", "Adds a vector to each position of a sequence", make_config<PositionEmbeddingConfig>},
      {"position_encoding", "Adds sines and cosines to each position of a sequence: nothing to learn",
       make_config<PositionEncodingConfig>},
      {"attention", "Self-attention of several heads over sequences", make_config<AttentionConfig>},
      {"cross_attention", "Attention of several heads of one sequence to another, its memory",
       make_config<CrossAttentionConfig>},
      {"lstm", "Long short-term memory over sequences, all its hidden states", make_config<LstmConfig>},
      {"gru", "Gated recurrent units over sequences, all their hidden states", make_config<GruConfig>},
  };
  return table;
}

}  // namespace lockstep
