// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/replica_update.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ops/elementwise/elementwise.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// Compares synchronizations of replicas, which differ from x₀ by given weights, with PyTorch's SGD(nesterov=True).
TEST(Golden, OuterNesterovSteps) {
  constexpr std::int64_t count = 23;
  for (const auto& golden : nlohmann::json::parse(test::read_golden("outer_steps.json"))) {
    LocalConfig config;
    read_config(parse_deck(fmt::format("{{every: 20, outer: nesterov, learning_rate: {}, momentum: {}}}",
                                       golden.at("learning_rate").get<double>(), golden.at("momentum").get<double>()),
                           "test"),
                config);
    const auto weights = golden.at("weights").get<std::vector<double>>();
    for (const DType dtype : {DType::f32, DType::f64}) {
      const ExecSpace space;
      const OuterOptimizer outer(config, dtype, count);
      const OwnedTensor values = test::make_filled(dtype, {count}, 300), replica("replica", dtype, {count}),
                        difference("difference", dtype, {count}), sum("sum", dtype, {count});
      for (std::uint64_t sync = 0; sync < 20; ++sync) {
        fill_zero(space, sum.get());
        for (std::size_t r = 0; r < weights.size(); ++r) {
          std::vector<double> moved = test::values_of(values.get());
          const std::vector<double> away = test::filling(301 + 2 * sync + r, count);
          for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= away[i] / 16;
          test::set_values(replica.get(), moved);
          weighted_difference(space, weights[r], values.get(), replica.get(), difference.get());
          accumulate(space, 1, difference.get(), sum.get());
        }
        outer.step(space, 1 / (weights[0] + weights[1]), {0, count}, sum.get(), values.get());
      }
      EXPECT_LT(test::largest_difference(test::values_of(values.get()), golden.at("p").get<std::vector<double>>()),
                dtype == DType::f64 ? 1e-12 : 1e-5);
    }
  }
}

}  // namespace
}  // namespace lockstep
