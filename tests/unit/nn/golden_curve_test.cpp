// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "optim/optimizer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// The start that make_golden.py gives its networks: parameters numbered in the order of the layers.
void start(ParameterBuffer& parameters, const Graph& graph) {
  std::uint64_t number = 0;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    std::int64_t fan_in = 1;
    for (const Tensor& tensor : parameters.values_of(node)) {
      if (tensor.shape.rank() > 1) fan_in = tensor.count() / tensor.shape[0];
      test::set_values(tensor, test::filling(400 + number++, tensor.count(), 1 / std::sqrt(static_cast<double>(fan_in))));
    }
  }
}

class GoldenCurve : public testing::TestWithParam<std::tuple<std::size_t, DType, ProviderKind>> {};

TEST_P(GoldenCurve, TwentyStepsLikePyTorch) {
  const auto& [index, dtype, provider] = GetParam();
  const Json golden = Json::parse(test::read_golden("curves.json")).at(index);
  SCOPED_TRACE(golden.at("name"));
  ModelConfig config;
  read_config(parse_deck(golden.at("model").get<std::string>(), "test"), config);
  const auto extents = golden.at("input").get<std::vector<std::int64_t>>();
  const Shape input{std::span(extents)};
  constexpr std::int64_t n = 8;
  Model model(Graph(config.resolved_layers(), input), {.dtype = dtype, .providers = test::using_provider(provider), .max_batch = n});
  start(model.parameters(), model.graph());
  OptimizerConfig optimizer_config;
  read_config(parse_deck(fmt::format("{{type: sgd, momentum: {}}}", golden.at("momentum").get<double>()), "test"), optimizer_config);
  const auto optimizer = optimizer_config.make(model.parameters());
  LossConfig loss_config;
  const auto loss = loss_config.make();

  const OwnedTensor scratch("scratch", DType::f64, {n, 2}), sums("sums", DType::f64, {2});
  const OwnedTensor scale = test::make_tensor(DType::f64, {1}, {1.0 / n});
  const StepContext context;
  const double tolerance = dtype == DType::f64 ? 1e-11 : 1e-4;
  const auto& losses = golden.at("losses");
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const std::size_t version = step % 2;
    const OwnedTensor x = test::make_filled(dtype, input.with_batch(n), 500 + version);
    std::vector<std::int32_t> classes;
    for (std::size_t i = 0; i < n; ++i) classes.push_back(static_cast<std::int32_t>((3 * i + version) % 10));
    const OwnedTensor targets = test::make_classes(classes);
    fill_zero(context.space, sums.get());
    const Tensor outputs = model.forward(context, x.get());
    loss->evaluate(context.space, outputs, targets.get(), model.output_gradient(), scratch.get(), sums.get());
    model.backward(context, x.get(), [](ParameterRange) {});
    optimizer->step(context.space, model.parameters(), {golden.at("learning_rate"), static_cast<std::int64_t>(step) + 1, scale.get()});
    context.space.fence();
    ASSERT_NEAR(test::values_of(sums.get())[0] / n / losses[step].get<double>(), 1.0, tolerance) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Curves, GoldenCurve,
                         testing::Combine(testing::Values(0, 1, 2), testing::Values(DType::f32, DType::f64),
                                          testing::Values(ProviderKind::automatic, ProviderKind::portable)));

}  // namespace
}  // namespace lockstep
