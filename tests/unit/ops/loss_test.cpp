// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/loss/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/loss.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::filling;
using test::make_filled;
using test::values_of;

struct Case {
  std::int64_t n, k;
  double smoothing, scale;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.n << " examples, " << c.k << " outputs, smoothing " << c.smoothing << ", scale " << c.scale;
  }
};

std::vector<double> loss_and_correct(const Tensor& sums) {
  const std::vector<double> all = values_of(sums);
  return {all[0], all[1]};
}

class LossOps : public testing::TestWithParam<std::tuple<DType, Case>> {
 protected:
  const ExecSpace space;
  const DType dtype = std::get<0>(GetParam());
  const Case c = std::get<1>(GetParam());
  const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
  const OwnedTensor dy{"dy", dtype, {c.n, c.k}}, scratch{"scratch", DType::f64, {c.n, 2}},
      sums{"sums", DType::f64, {loss_sum_count}};
};

TEST_P(LossOps, CrossEntropy) {
  const OwnedTensor logits = make_filled(dtype, {c.n, c.k}, 1, c.scale);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < c.n; ++i) targets.push_back(static_cast<std::int32_t>((5 * i + 3) % c.k));
  const OwnedTensor classes = test::make_classes(targets);
  const auto expected = reference::cross_entropy(c.smoothing, static_cast<std::size_t>(c.k),
                                                 filling(1, c.n * c.k, c.scale), targets);

  softmax_cross_entropy(space, {.label_smoothing = c.smoothing}, logits.get(), classes.get(), dy.get(), scratch.get(),
                        sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(loss_and_correct(sums.get()), {expected.loss, expected.correct}), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), expected.gradient), tolerance);

  // A call without a gradient adds to the sums.
  softmax_cross_entropy(space, {.label_smoothing = c.smoothing}, logits.get(), classes.get(), Tensor{}, scratch.get(),
                        sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(loss_and_correct(sums.get()), {2 * expected.loss, 2 * expected.correct}),
            tolerance);
}

TEST_P(LossOps, GradientsMayStandWhereOutputsStood) {
  const OwnedTensor t = make_filled(dtype, {c.n, c.k}, 2, c.scale);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < c.n; ++i) targets.push_back(static_cast<std::int32_t>((5 * i + 3) % c.k));
  const OwnedTensor classes = test::make_classes(targets);
  const auto evaluate = [&](int kind, const Tensor& y, const Tensor& gradient) {
    fill_zero(space, sums.get());
    if (kind < 2)
      softmax_cross_entropy(space, {.label_smoothing = c.smoothing, .ignored = kind - 1}, y, classes.get(), gradient,
                            scratch.get(), sums.get());
    else value_loss(space, static_cast<ValueLoss>(kind - 2), 0.5, y, t.get(), gradient, scratch.get(), sums.get());
    space.fence();
    return std::pair(values_of(sums.get()), values_of(gradient));
  };
  for (int kind = 0; kind < 7; ++kind) {
    const OwnedTensor outputs = make_filled(dtype, {c.n, c.k}, 1, c.scale);
    const auto apart = evaluate(kind, outputs.get(), dy.get());
    EXPECT_EQ(apart, evaluate(kind, outputs.get(), outputs.get())) << kind;
  }
}

TEST_P(LossOps, GradientScaleLeavesTheLossAlone) {
  const OwnedTensor logits = make_filled(dtype, {c.n, c.k}, 1, c.scale), t = make_filled(dtype, {c.n, c.k}, 2, c.scale);
  const OwnedTensor classes = test::make_classes(std::vector<std::int32_t>(static_cast<std::size_t>(c.n), 0));
  for (const bool squares : {false, true}) {
    std::vector<std::vector<double>> gradients, losses;
    for (const double scale : {1.0, 1024.0}) {
      fill_zero(space, sums.get());
      if (squares)
        value_loss(space, ValueLoss::squared_error, 0, logits.get(), t.get(), dy.get(), scratch.get(), sums.get(),
                   scale);
      else
        softmax_cross_entropy(space, {.label_smoothing = c.smoothing}, logits.get(), classes.get(), dy.get(),
                              scratch.get(), sums.get(), scale);
      space.fence();
      losses.push_back(values_of(sums.get()));
      gradients.push_back(values_of(dy.get()));
    }
    EXPECT_EQ(losses[0], losses[1]);
    for (std::size_t i = 0; i < gradients[0].size(); ++i) EXPECT_EQ(1024 * gradients[0][i], gradients[1][i]);
  }
}

/// The loss of mixed targets is the sum of both targets' losses weighted by their shares.
TEST_P(LossOps, CrossEntropyOfMixedTargets) {
  const OwnedTensor logits = make_filled(dtype, {c.n, c.k}, 1, c.scale);
  std::vector<std::int32_t> targets, others;
  std::vector<double> shares;
  for (std::int64_t i = 0; i < c.n; ++i) {
    targets.push_back(static_cast<std::int32_t>((5 * i + 3) % c.k));
    others.push_back(static_cast<std::int32_t>((3 * i + 1) % c.k));
    shares.push_back(i == 0 ? 1.0 : 0.125 * static_cast<double>(i % 8));
  }
  double loss = 0;
  std::vector<double> gradient;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto k = static_cast<std::size_t>(c.k);
    const std::vector<double> all = filling(1, c.n * c.k, c.scale),
                              row(all.begin() + static_cast<std::ptrdiff_t>(i * k),
                                  all.begin() + static_cast<std::ptrdiff_t>((i + 1) * k));
    const auto own = reference::cross_entropy(c.smoothing, k, row, {targets[i]}),
               other = reference::cross_entropy(c.smoothing, k, row, {others[i]});
    loss += shares[i] * own.loss + (1 - shares[i]) * other.loss;
    for (std::size_t j = 0; j < k; ++j)
      gradient.push_back(shares[i] * own.gradient[j] + (1 - shares[i]) * other.gradient[j]);
  }
  const OwnedTensor classes = test::make_classes(targets), more = test::make_classes(others),
                    weights = test::make_tensor(DType::f64, {c.n}, shares);
  softmax_cross_entropy(space, {.label_smoothing = c.smoothing}, logits.get(), classes.get(), dy.get(), scratch.get(),
                        sums.get(), 1, {.others = more.get(), .shares = weights.get()});
  space.fence();
  EXPECT_LT(test::largest_difference({values_of(sums.get())[0]}, {loss}), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), gradient), tolerance);
}

/// Each of the T positions of a sequence counts as 1/T of an example.
TEST_P(LossOps, CrossEntropyOfSequences) {
  const std::int64_t positions = 5, rows = c.n * positions;
  const OwnedTensor logits = make_filled(dtype, {c.n, positions, c.k}, 1, c.scale),
                    gradient("gradient", dtype, {c.n, positions, c.k});
  const OwnedTensor per_row("per_row", DType::f64, {rows, 2});
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) targets.push_back(static_cast<std::int32_t>((5 * i + 3) % c.k));
  const OwnedTensor classes = test::make_classes(targets);
  auto expected = reference::cross_entropy(c.smoothing, static_cast<std::size_t>(c.k), filling(1, rows * c.k, c.scale),
                                           targets);
  for (double& value : expected.gradient) value /= positions;
  softmax_cross_entropy(space, {.label_smoothing = c.smoothing}, logits.get(), classes.get(), gradient.get(),
                        per_row.get(), sums.get());
  space.fence();
  EXPECT_LT(
      test::largest_difference(loss_and_correct(sums.get()), {expected.loss / positions, expected.correct / positions}),
      tolerance);
  EXPECT_LT(test::largest_difference(values_of(gradient.get()), expected.gradient), tolerance);
}

TEST_P(LossOps, SquaredError) {
  const OwnedTensor y = make_filled(dtype, {c.n, c.k}, 1, c.scale), t = make_filled(dtype, {c.n, c.k}, 2, c.scale);
  const auto expected = reference::squared_error(static_cast<std::size_t>(c.k), filling(1, c.n * c.k, c.scale),
                                                 filling(2, c.n * c.k, c.scale));
  value_loss(space, ValueLoss::squared_error, 0, y.get(), t.get(), dy.get(), scratch.get(), sums.get());
  space.fence();
  EXPECT_LT(test::largest_difference(loss_and_correct(sums.get()), {expected.loss, 0}), tolerance);
  EXPECT_LT(test::largest_difference(values_of(dy.get()), expected.gradient), tolerance);
}

// Logits of ±1000 overflow a careless softmax.
INSTANTIATE_TEST_SUITE_P(Sizes, LossOps,
                         testing::Combine(testing::Values(DType::f32, DType::f64),
                                          testing::Values(Case{1, 1, 0, 1}, Case{13, 10, 0, 3}, Case{7, 3, 0.1, 1},
                                                          Case{5, 101, 0.5, 10}, Case{3, 17, 0, 1000}, Case{4, 6, 1, 2},
                                                          Case{3, 1003, 0.1, 20}, Case{3, 5003, 0.1, 20},
                                                          Case{2, 4104, 0, 3}, Case{2, 1024, 0.1, 20},
                                                          Case{3, 9001, 0, 20})));

/// With 16-bit logits, everything but the stored gradient is computed in fp32.
TEST(LossOps16, CrossEntropyIsThatOfTheRoundedLogits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const ExecSpace space;
    const std::int64_t n = 6, k = 531;
    const OwnedTensor logits = make_filled(dtype, {n, k}, 1, 8), dy("dy", dtype, {n, k}),
                      scratch("scratch", DType::f64, {n, 2}), sums("sums", DType::f64, {loss_sum_count});
    const std::vector<std::int32_t> targets = {0, 530, 17, 200, 3, 511};
    const auto expected = reference::cross_entropy(0.1, static_cast<std::size_t>(k), values_of(logits.get()), targets);
    softmax_cross_entropy(space, {.label_smoothing = 0.1}, logits.get(), test::make_classes(targets).get(), dy.get(),
                          scratch.get(), sums.get(), 4096);
    space.fence();
    EXPECT_NEAR(values_of(sums.get())[0] / expected.loss, 1, 1e-6);
    const auto gradient = values_of(dy.get());
    const double tolerance = dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;  // of the stored gradient
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], 4096 * expected.gradient[i], tolerance * std::abs(4096 * expected.gradient[i]) + 1e-4);
  }
}

/// The loss of a run that diverges must be NaN, and a prediction is correct only if its target is the first maximum.
TEST(LossOps16, NotANumberAndTies) {
  const ExecSpace space;
  const OwnedTensor scratch("scratch", DType::f64, {1, 2}), sums("sums", DType::f64, {loss_sum_count});
  const auto evaluate = [&](DType dtype, std::vector<double> logits, std::int32_t target) {
    fill_zero(space, sums.get());
    const OwnedTensor z = test::make_tensor(dtype, {1, static_cast<std::int64_t>(logits.size())}, logits);
    softmax_cross_entropy(space, {}, z.get(), test::make_classes({target}).get(), Tensor{}, scratch.get(), sums.get());
    space.fence();
    return values_of(sums.get());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::size_t classes : {40, 5000})
      for (const std::size_t place : {std::size_t{0}, std::size_t{7}, classes - 1}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << place << " of " << classes);
        const auto last = static_cast<std::int32_t>(classes - 1);
        auto logits = filling(1, static_cast<std::int64_t>(classes));
        logits[place] = nan;
        EXPECT_TRUE(std::isnan(evaluate(dtype, logits, 3)[0]));
        logits[place] = infinity;
        EXPECT_TRUE(std::isnan(evaluate(dtype, logits, 3)[0]));
        logits[place] = -infinity;
        EXPECT_TRUE(std::isfinite(evaluate(dtype, logits, 3)[0]));
        std::vector<double> ties(classes, 0.0);
        ties[place] = ties[classes - 1] = 1;
        EXPECT_EQ(evaluate(dtype, ties, static_cast<std::int32_t>(place))[1], 1.0);
        EXPECT_EQ(evaluate(dtype, ties, last)[1], place + 1 == classes ? 1.0 : 0.0);
      }
}

}  // namespace
}  // namespace lockstep
