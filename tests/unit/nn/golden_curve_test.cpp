// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "nn/model_config.hpp"
#include "ops/loss/loss.hpp"
#include "optim/optimizer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// The batch number `version`: images and a class for each position of the output, or tokens and the tokens to predict.
struct Batch {
  OwnedTensor x, targets;
};

Batch make_batch(const Model& model, DType dtype, std::int64_t n, std::uint64_t version) {
  const Graph& graph = model.graph();
  if (graph.nodes()[0].layer->traits().vocabulary == 0) {
    std::vector<std::int32_t> classes;
    for (std::int64_t i = 0; i < n * graph.output_shape().count() / graph.output_shape()[-1]; ++i)
      classes.push_back(static_cast<std::int32_t>((3 * i + static_cast<std::int64_t>(version)) % 10));
    return {test::make_filled(dtype, graph.input_shape().with_batch(n), 500 + version), test::make_classes(classes)};
  }
  const Shape shape = graph.input_shape().with_batch(n);
  Batch batch{OwnedTensor("x", DType::i32, shape), OwnedTensor("targets", DType::i32, shape)};
  copy_from_host(ExecSpace(), test::filling_tokens(500 + version, shape.count(), 10).data(), batch.x.get());
  copy_from_host(ExecSpace(), test::filling_tokens(510 + version, shape.count(), 10).data(), batch.targets.get());
  return batch;
}

/// The losses of the first steps of a case of curves.json.
std::vector<double> train(const Json& golden, std::size_t steps, DType dtype, ProviderKind provider) {
  ModelConfig config;
  read_config(parse_deck(golden.at("model").get<std::string>(), "test"), config);
  const auto extents = golden.at("input").get<std::vector<std::int64_t>>();
  const Shape input{std::span(extents)};
  constexpr std::int64_t n = 8;
  Model model(Graph(config.resolved_layers(), input),
              {.dtype = dtype, .providers = test::using_provider(provider), .max_batch = n});
  test::golden_start(model.parameters(), model.graph());
  OptimizerConfig optimizer_config;
  read_config(parse_deck(fmt::format("{{type: sgd, momentum: {}}}", golden.at("momentum").get<double>()), "test"),
              optimizer_config);
  const auto optimizer = optimizer_config.make(model.parameters());
  LossConfig loss_config;
  const auto loss = loss_config.make();

  const OwnedTensor scratch("scratch", DType::f64, {n * model.graph().output_shape().count(), 2}),
      sums("sums", DType::f64, {loss_sum_count});
  const UpdateScalarsMemory scalars;
  const PassContext context;
  std::vector<double> losses;
  for (std::size_t step = 0; step < steps; ++step) {
    const Batch batch = make_batch(model, dtype, n, step % 2);
    fill_zero(context.space, sums.get());
    const Tensor outputs = model.forward(context, batch.x.get());
    loss->evaluate(context.space, outputs, batch.targets.get(), model.output_gradient(), scratch.get(), sums.get());
    model.backward(context, batch.x.get(), [](ElementRange) {});
    model.parameters().update_statistics(context.space, 1.0 / n);
    optimizer->step(
        context.space, model.parameters(),
        scalars.set(context.space,
                    {.coefficients = optimizer->coefficients(
                         {.learning_rate = golden.at("learning_rate"), .number = static_cast<std::int64_t>(step) + 1}),
                     .gradient_scale = 1.0 / n}));
    context.space.fence();
    losses.push_back(test::values_of(sums.get())[0] / n);
  }
  return losses;
}

class GoldenCurve : public testing::TestWithParam<std::tuple<std::size_t, DType, ProviderKind>> {};

TEST_P(GoldenCurve, TwentyStepsLikePyTorch) {
  const auto& [index, dtype, provider] = GetParam();
  const Json golden = Json::parse(test::read_golden("curves.json")).at(index);
  SCOPED_TRACE(golden.at("name"));
  // Where PyTorch's own fp32 deviates from its fp64 by more than 1e-4, its deviation sets the tolerance.
  const double deviation = golden.at("deviation");
  const bool is_exact = dtype == DType::f64;
  const double tolerance = is_exact ? std::max(1e-11, 1e-6 * deviation) : std::max(1e-4, 2 * deviation);
  // An input of a relu may be so near to 0 that another CPU's rounding changes its sign. From there on, curves in fp32
  // are those of slightly different networks.
  constexpr std::size_t steps_before_kinks = 8;
  const auto tolerance_at = [&](std::size_t step) {
    return is_exact || step < steps_before_kinks ? tolerance : std::max(5e-3, tolerance);
  };
  std::vector<double> losses = train(golden, golden.at("losses").size(), dtype, provider);
  for (std::size_t step = 0; step < losses.size(); ++step)
    ASSERT_NEAR(losses[step] / golden.at("losses")[step].get<double>(), 1.0, tolerance_at(step)) << "step " << step;
  losses.resize(5);
  EXPECT_EQ(train(golden, losses.size(), dtype, provider), losses) << "another run is to be the same, bit for bit";
}

std::string name_of_curve(const testing::TestParamInfo<GoldenCurve::ParamType>& instance) {
  const auto& [index, dtype, provider] = instance.param;
  return fmt::format("{}_{}_{}", index, testing::PrintToString(dtype), testing::PrintToString(provider));
}

INSTANTIATE_TEST_SUITE_P(
    Curves, GoldenCurve,
    testing::Combine(testing::Range<std::size_t>(0, Json::parse(test::read_golden("curves.json")).size()),
                     testing::Values(DType::f32, DType::f64), testing::ValuesIn(test::automatic_and_portable())),
    name_of_curve);

}  // namespace
}  // namespace lockstep
