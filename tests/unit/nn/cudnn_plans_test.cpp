// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "config/deck.hpp"
#include "nn/graph.hpp"
#include "nn/layers/attention.hpp"
#include "nn/layers/conv.hpp"
#include "nn/model_config.hpp"
#include "nn/presets/presets.hpp"
#include "ops/cudnn/graph.hpp"
#include "support/fixtures.hpp"
#include "support/scratch.hpp"

// Plans of cuDNN for an H100, made from a description of the device where there is none.

namespace lockstep {
namespace {

const CudnnDevice* h100() {
  static const std::unique_ptr<CudnnDevice> device = []() -> std::unique_ptr<CudnnDevice> {
    std::ifstream file(test::data_dir() / "accelerators" / "h100_device.json");
    if (!file) return nullptr;
    std::stringstream text;
    text << file.rdbuf();
    return std::make_unique<CudnnDevice>(text.str(), 90);
  }();
  return device.get();
}

struct Products {
  std::set<ConvolutionShape> convolutions;
  std::set<AttentionShape> attentions;
};

/// Reduces the number of images where cuDNN's 32-bit element counts would overflow.
ConvolutionShape indexable(ConvolutionShape shape) {
  const std::int64_t largest = std::max(shape.h * shape.w * shape.c, shape.out_h() * shape.out_w() * shape.filters);
  shape.n = std::min(shape.n, std::numeric_limits<std::int32_t>::max() / largest);
  return shape;
}

/// The products that a `model` section plans for `n` examples.
Products products_of(const std::string& model, DType dtype, std::int64_t n) {
  ModelConfig config;
  read_config(parse_deck(model, "test"), config);
  std::vector<std::int64_t> input = config.input;
  if (input.empty()) input = dynamic_cast<const PresetConfig&>(*config.preset_config).input();
  Graph graph(config.resolved_layers(), Shape(input));
  Products products;
  for (GraphNode& node : graph.nodes()) {
    node.layer->plan({node.input_shapes, node.shape, dtype, {}, node.number});
    if (const auto* layer = dynamic_cast<const Conv*>(node.layer.get()))
      products.convolutions.insert(indexable(layer->product(n)));
    if (const auto* layer = dynamic_cast<const ConvTranspose2d*>(node.layer.get()))
      products.convolutions.insert(indexable(layer->product(n)));
    if (const auto* layer = dynamic_cast<const Attention*>(node.layer.get()))
      products.attentions.insert(layer->product(n));
  }
  return products;
}

template <class Shape>
using Plan = std::unique_ptr<CudnnGraph> (*)(const CudnnDevice&, const Shape&);

/// The message of the error of planning; empty if the shape is planned.
template <class Shape>
std::string complaint(Plan<Shape> plan, const Shape& shape) {
  try {
    EXPECT_LE(plan(*h100(), shape)->workspace_bytes(), max_plan_workspace_bytes);
    return "";
  } catch (const PlanError& error) {
    return error.what();
  }
}

std::unique_ptr<CudnnGraph> forward(const CudnnDevice& device, const ConvolutionShape& shape) {
  return cudnn_forward(device, shape).graph;
}

class CudnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (!h100()) GTEST_SKIP() << "no description of a device (accelerators/h100_device.json) beside the data";
  }
};

TEST_F(CudnnPlans, EveryConvolutionOfEveryPreset) {
  int planned = 0;
  for (const Alternative& preset : preset_alternatives())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const ConvolutionShape& s : products_of(fmt::format("preset: {}", preset.name), dtype, 256).convolutions) {
        SCOPED_TRACE(fmt::format("{} {}: {}→{} at {}×{}, kernel {}, stride {}, bias {}", preset.name, name_of(dtype),
                                 s.c, s.filters, s.h, s.w, s.kernel_h, s.stride, s.bias));
        EXPECT_EQ(complaint(forward, s), "");
        EXPECT_EQ(complaint(cudnn_data_gradient, s), "");
        EXPECT_EQ(complaint(cudnn_weight_gradient, s), "");
        ++planned;
      }
  EXPECT_GE(planned, 3 * 30) << "the presets' convolutions were not found";
}

TEST_F(CudnnPlans, EveryAttentionOfEveryPreset) {
  int planned = 0;
  std::vector<std::string> models{
      "{preset: transformer, vocabulary: 50257, sequence: 1024, d_model: 768, depth: 12, heads: 12}"};
  for (const Alternative& preset : preset_alternatives()) models.push_back(fmt::format("preset: {}", preset.name));
  for (const std::string& model : models)
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const AttentionShape& s : products_of(model, dtype, 16).attentions) {
        SCOPED_TRACE(fmt::format("{}, {}", model, name_of(dtype)));
        EXPECT_EQ(complaint(cudnn_attention, s), "");
        EXPECT_EQ(complaint(cudnn_attention_gradient, s), "");
        ++planned;
      }
  EXPECT_GE(planned, 4);
}

TEST_F(CudnnPlans, ChoicesChangeThePlan) {
  const ConvolutionShape s{.n = 64,
                           .h = 28,
                           .w = 28,
                           .c = 128,
                           .filters = 128,
                           .kernel_h = 3,
                           .kernel_w = 3,
                           .pad_top = 1,
                           .pad_left = 1,
                           .pad_bottom = 1,
                           .pad_right = 1,
                           .bias = false};
  ConvolutionShape rounded = s;
  rounded.choices.tf32 = true;
  ConvolutionShape fused = s;
  fused.bias = true, fused.activation = Activation::relu, fused.dtype = DType::bf16;
  EXPECT_TRUE(cudnn_forward(*h100(), fused).adds_bias);
  EXPECT_NE(cudnn_convolution(*h100(), s)->engine(), cudnn_convolution(*h100(), rounded)->engine());
  const AttentionShape fixed{.n = 4, .length = 1024, .heads = 12, .head_size = 64, .dtype = DType::bf16};
  AttentionShape fastest = fixed;
  fastest.choices.deterministic = false;
  EXPECT_NE(cudnn_attention_gradient(*h100(), fixed)->workspace_bytes(),
            cudnn_attention_gradient(*h100(), fastest)->workspace_bytes());
}

TEST(CudnnDescriptions, ThatCudnnRejectsAreErrors) {
  test::expect_error(ExitStatus::bad_data, "cuDNN cannot read this device description",
                     [] { CudnnDevice("{\"deviceName\": 1}", 90); });
}

TEST_F(CudnnPlans, WhatItDeclinesIsSaid) {
  AttentionShape s{.n = 4, .length = 64, .heads = 4, .head_size = 13, .dtype = DType::bf16};
  EXPECT_NE(complaint(cudnn_attention, s), "");
  ConvolutionShape wide{.n = 4, .h = 8, .w = 8, .c = 8, .filters = 8, .dtype = DType::f64};
  EXPECT_NE(complaint(forward, wide), "");
}

}  // namespace
}  // namespace lockstep
