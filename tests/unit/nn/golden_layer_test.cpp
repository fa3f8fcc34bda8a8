// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "nn/layer.hpp"
#include "nn/loss.hpp"
#include "ops/loss/loss.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

TEST(Golden, Layers) {
  std::set<std::string> seen;
  for (const Json& golden : Json::parse(test::read_golden("layers.json"))) {
    const std::string entry = golden.at("entry");
    seen.insert(test::parse_layer(entry).type);
    std::vector<Shape> inputs;
    for (const auto& extents : golden.at("inputs")) {
      const auto all = extents.get<std::vector<std::int64_t>>();
      inputs.emplace_back(std::span(all).subspan(1));
    }
    for (const DType dtype : {DType::f32, DType::f64})
      for (const ProviderKind provider : test::automatic_and_portable()) {
        SCOPED_TRACE(
            fmt::format("{} {} {}", entry, name_of(dtype), provider_names[static_cast<std::size_t>(provider)]));
        test::LayerHarness harness(entry, inputs, golden.at("inputs")[0][0],
                                   {.dtype = dtype,
                                    .providers = test::using_provider(provider),
                                    .fused = golden.at("relu") ? Activation::relu : Activation::none,
                                    .addition = golden.value("addition", false)});
        const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
        if (golden.contains("evaluation")) {
          EXPECT_LT(test::largest_difference(harness.forward(false), golden.at("evaluation").get<Numbers>()),
                    tolerance);
        }
        EXPECT_LT(test::largest_difference(harness.forward(), golden.at("y").get<Numbers>()), tolerance);
        const auto gradients = harness.backward(test::filling(7, harness.output_shape().count()));
        ASSERT_EQ(gradients.x.size(), golden.at("dx").size());
        for (std::size_t i = 0; i < gradients.x.size(); ++i)
          EXPECT_LT(test::largest_difference(gradients.x[i], golden.at("dx")[i].get<Numbers>()), tolerance)
              << "dx " << i;
        ASSERT_EQ(gradients.parameters.size(), golden.at("parameters").size());
        for (std::size_t i = 0; i < gradients.parameters.size(); ++i)
          EXPECT_LT(test::largest_difference(gradients.parameters[i], golden.at("parameters")[i].get<Numbers>()),
                    tolerance)
              << harness.specs()[i].name;
      }
  }
  // No other library draws the same dropout masks, and views compute nothing.
  const std::set<std::string_view> not_golden{"dropout", "flatten", "reshape", "sequence"};
  for (const auto& alternative : layer_alternatives()) {
    if (not_golden.contains(alternative.name)) continue;
    EXPECT_TRUE(seen.count(std::string(alternative.name))) << "add " << alternative.name << " to golden/make_golden.py";
  }
}

TEST(Golden, Losses) {
  std::set<std::string> seen;
  for (const Json& golden : Json::parse(test::read_golden("losses.json"))) {
    const std::string deck = golden.at("deck");
    SCOPED_TRACE(deck);
    const std::int64_t n = golden.at("n");
    const auto extents = golden.at("shape").get<std::vector<std::int64_t>>();
    const Shape one{std::span(extents)};
    const std::int64_t rows = n * one.count() / one[-1];
    LossConfig config;
    read_config(parse_deck(deck, "test"), config);
    seen.insert(config.type);
    const auto loss = config.make();
    loss->check_output(one);
    const OwnedTensor labels = test::make_classes(golden.value("targets", std::vector<std::int32_t>{0}));
    for (const DType dtype : {DType::f32, DType::f64}) {
      const OwnedTensor y = test::make_filled(dtype, one.with_batch(n), 1, golden.at("scale")),
                        values = test::make_filled(dtype, one.with_batch(n), 2), dy("dy", dtype, one.with_batch(n));
      const OwnedTensor scratch("scratch", DType::f64, {rows, 2}), sums("sums", DType::f64, {loss_sum_count});
      loss->evaluate(ExecSpace(), y.get(), loss->wants_classes() ? labels.get() : values.get(), dy.get(), scratch.get(),
                     sums.get());
      ExecSpace().fence();
      const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
      EXPECT_NEAR(test::values_of(sums.get())[0] / golden.at("loss").get<double>(), 1.0, tolerance);
      EXPECT_LT(test::largest_difference(test::values_of(dy.get()), golden.at("gradient").get<Numbers>()), tolerance);
    }
  }
  EXPECT_EQ(seen,
            (std::set<std::string>{"cross_entropy", "mse", "mae", "huber", "binary_cross_entropy", "relative_l2"}));
}

}  // namespace
}  // namespace lockstep
