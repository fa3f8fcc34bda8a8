// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/offloaded_states.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "optim/optimizer.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

using Numbers = std::vector<double>;

/// Compares steps over offloaded states, in blocks of 4,096 elements, with the same steps in memory.
class StatePassTest : public testing::TestWithParam<std::tuple<StateOffload::To, const char*>> {
 protected:
  /// A network and its optimizer.
  struct Side {
    ParameterBuffer parameters{
        Graph(
            test::parse_layers("[{linear: {features: 300}}, relu, {linear: {features: 301}}, {linear: {features: 7}}]"),
            {120})
            .layer_specs(),
        DType::f32};
    std::unique_ptr<Optimizer> optimizer;
    UpdateScalarsMemory scalars;

    Side(const OptimizerConfig& config, const StateOffload& offload) {
      parameters.initialize(ExecSpace(), 3);
      optimizer = config.make(parameters, offload);
    }
    const UpdateScalars* begin(std::uint64_t number) {
      test::set_values(parameters.gradients(), test::filling(number, parameters.gradients().count()));
      return scalars.set(
          ExecSpace(),
          {.coefficients = optimizer->coefficients(
               {.learning_rate = 0.01, .learning_rate_before = 0.01, .number = static_cast<std::int64_t>(number)}),
           .first = number == 1 ? 1 : 0});
    }
    Numbers values() const { return test::values_of(parameters.values()); }
  };

  void SetUp() override {
    const auto [to, optimizer] = GetParam();
    if (memory_is_separate && to == StateOffload::To::file) GTEST_SKIP() << "for hosts";
    OptimizerConfig config;
    read_config(parse_deck(optimizer, "test"), config);
    in_memory_ = std::make_unique<Side>(config, StateOffload{});
    try {
      offloaded_ = std::make_unique<Side>(config, StateOffload{to, folder_.path().string(), 0.001});
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) GTEST_SKIP() << error.what();
      throw;
    }
    EXPECT_EQ(in_memory_->optimizer->stream_steps(), nullptr);
    EXPECT_FALSE(in_memory_->optimizer->begins_early());
    pass_ = offloaded_->optimizer->stream_steps();
    ASSERT_NE(pass_, nullptr);
  }

  const ExecSpace space_;
  const test::ScratchFolder folder_;
  std::unique_ptr<Side> in_memory_, offloaded_;
  OffloadedUpdate* pass_ = nullptr;
};

bool equal(const Numbers& a, const Numbers& b, std::int64_t first, std::int64_t end) {
  return std::equal(a.begin() + first, a.begin() + end, b.begin() + first);
}

TEST_P(StatePassTest, ParametersAreNewWhenTheyAreWaitedFor) {
  const std::int64_t all = offloaded_->parameters.trained_size();
  ASSERT_GT(all, 25 * array_block);
  for (std::uint64_t number = 1; number <= 6; ++number) {
    const Numbers before = offloaded_->values();
    in_memory_->optimizer->step(space_, in_memory_->parameters, in_memory_->begin(number));
    const Numbers wanted = in_memory_->values();
    offloaded_->optimizer->step(space_, offloaded_->parameters, offloaded_->begin(number));
    // Parameters that a forward pass needs first stand last.
    for (const std::int64_t first : {all - 5, all / 2, std::int64_t{100}}) {
      if (!pass_->have_arrived(space_, first)) pass_->await(space_, first);
      EXPECT_TRUE(equal(offloaded_->values(), wanted, first, all)) << number;
    }
    if (number % 2 == 0) {
      pass_->await(space_, 0);
      EXPECT_EQ(offloaded_->values(), wanted);
    }
    while (!pass_->have_arrived(space_, 0)) continue;
    EXPECT_EQ(offloaded_->values(), wanted);
    EXPECT_NE(before, wanted);
  }
}

TEST_P(StatePassTest, ParametersChangeWhereGradientsAreFinal) {
  const std::int64_t all = offloaded_->parameters.trained_size();
  if (!offloaded_->optimizer->begins_early()) GTEST_SKIP() << "needs all gradients";
  for (std::uint64_t number = 1; number <= 6; ++number) {
    const Numbers before = offloaded_->values();
    in_memory_->optimizer->step(space_, in_memory_->parameters, in_memory_->begin(number));
    const Numbers wanted = in_memory_->values();
    const UpdateScalars* const step = offloaded_->begin(number);
    offloaded_->optimizer->begin_step(space_, offloaded_->parameters, step);
    EXPECT_EQ(offloaded_->values(), before);
    for (const std::int64_t end : {array_block - 1, array_block, 10 * array_block + 5}) {
      offloaded_->optimizer->gradients_are_final(space_, end);
      EXPECT_TRUE(pass_->have_arrived(space_, 0)) << "who asks wants those that gradients are by";
      EXPECT_TRUE(equal(offloaded_->values(), before, end / array_block * array_block, all)) << number;
    }
    offloaded_->optimizer->step(space_, offloaded_->parameters, step);
    pass_->await(space_, all / 3);
    EXPECT_TRUE(equal(offloaded_->values(), wanted, all / 3, all)) << number;
    pass_->await(space_, 0);
    EXPECT_EQ(offloaded_->values(), wanted);
  }
}

/// Only one window has a NaN: the kernels of the windows after it, which find none, must not reset the flag.
TEST_P(StatePassTest, WhatIsNotFiniteIsKnownInTheEnd) {
  const UpdateScalars* const step = offloaded_->begin(1);
  Numbers gradients = test::values_of(offloaded_->parameters.gradients());
  gradients[0] = std::numeric_limits<double>::quiet_NaN();
  test::set_values(offloaded_->parameters.gradients(), gradients);
  offloaded_->optimizer->step(space_, offloaded_->parameters, step);
  pass_->await(space_, 0);
  EXPECT_TRUE(offloaded_->optimizer->left_nonfinite(space_));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StatePassTest,
                         testing::Combine(testing::Values(StateOffload::To::file, StateOffload::To::host_memory),
                                          testing::Values("{type: adamw, ema_decay: 0.9}", "{type: sgd, momentum: 0.9}",
                                                          "{type: lamb}", "{type: lars, ema_decay: 0.5}")));

}  // namespace
}  // namespace lockstep
