// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/elementwise/elementwise.hpp"

#include "products_support.hpp"

namespace lockstep::test {
namespace {

using Parameters = std::tuple<DType, Activation, std::tuple<std::int64_t, std::int64_t>>;

class BiasTest : public testing::TestWithParam<Parameters> {
 protected:
  const DType dtype_ = std::get<0>(GetParam());
  const Activation activation_ = std::get<1>(GetParam());
  const std::int64_t rows_ = std::get<0>(std::get<2>(GetParam())), c_ = std::get<1>(std::get<2>(GetParam()));
  const Shape shape_{rows_, c_};
  const ExecSpace space_;

  double activated(double value) const {
    switch (activation_) {
      case Activation::relu: return std::max(value, 0.0);
      case Activation::tanh: return std::tanh(value);
      case Activation::sigmoid: return 1 / (1 + std::exp(-value));
      case Activation::gelu: return value * probability(value);
      default: return value;
    }
  }
  static double probability(double value) { return 0.5 * std::erfc(-value / std::sqrt(2.0)); }
  /// dy times the derivative of the activation, whose result (for gelu: whose derivative itself) is y.
  double gradient(double y, double dy) const {
    switch (activation_) {
      case Activation::gelu: return dy * y;
      case Activation::relu: return y > 0 ? dy : 0.0;
      case Activation::tanh: return dy * (1 - y * y);
      case Activation::sigmoid: return dy * y * (1 - y);
      default: return dy;
    }
  }
};

TEST_P(BiasTest, forward) {
  const Values before = random_values(dtype_, shape_, 1), bias = random_values(dtype_, {c_}, 2);
  for (const bool with_bias : {true, false}) {
    const OwnedTensor y = upload(dtype_, shape_, before);
    const OwnedTensor b = with_bias ? upload(dtype_, {c_}, bias) : OwnedTensor();
    const OwnedTensor derivative = keeps_derivative(activation_) ? not_a_number(dtype_, shape_) : OwnedTensor();
    bias_activation_forward(space_, b.get(), activation_, y.get(), derivative.get());
    Values expected = before, slopes = before;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double value = before[i] + (with_bias ? bias[i % bias.size()] : 0);
      expected[i] = activated(value);
      slopes[i] = probability(value) + value * std::exp(-0.5 * value * value) / std::sqrt(2 * M_PI);
    }
    expect_near(download(y.get()), expected, tolerance(dtype_, 1));
    if (!keeps_derivative(activation_)) continue;
    expect_near(download(derivative.get()), slopes, tolerance(dtype_, 1));
    const OwnedTensor alone = upload(dtype_, shape_, before);
    bias_activation_forward(space_, b.get(), activation_, alone.get());
    EXPECT_EQ(download(alone.get()), download(y.get())) << "nothing kept";
  }
}

TEST_P(BiasTest, backward) {
  const Values y = random_values(dtype_, shape_, 1), dy = random_values(dtype_, shape_, 2),
               before = random_values(dtype_, {c_}, 3);
  Values expected = dy, sums(static_cast<std::size_t>(c_));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = gradient(y[i], dy[i]);
    sums[i % sums.size()] += expected[i];
  }
  const OwnedTensor ty = activation_ != Activation::none ? upload(dtype_, shape_, y) : OwnedTensor();
  const auto workspace = GuardedTensor::workspace(bias_workspace_bytes(dtype_, rows_, c_));
  const double allowed = tolerance(dtype_, rows_);
  // relu passes gradients on unchanged, hence without a rounding error.
  const double each = activation_ == Activation::none || activation_ == Activation::relu ? 0 : tolerance(dtype_, 1);

  const OwnedTensor tdy = upload(dtype_, shape_, dy), dbias = not_a_number(dtype_, {c_});
  bias_activation_backward(space_, activation_, ty.get(), tdy.get(), dbias.get(), Store::replace, workspace.get());
  expect_near(download(tdy.get()), expected, each);
  expect_near(download(dbias.get()), sums, allowed);

  const OwnedTensor again = upload(dtype_, shape_, dy), total = upload(dtype_, {c_}, before);
  bias_activation_backward(space_, activation_, ty.get(), again.get(), total.get(), Store::add, workspace.get());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += before[i];
  expect_near(download(total.get()), sums, allowed);

  const OwnedTensor alone = upload(dtype_, shape_, dy);
  bias_activation_backward(space_, activation_, ty.get(), alone.get(), Tensor(), Store::replace, workspace.get());
  expect_near(download(alone.get()), expected, each);
}

TEST_P(BiasTest, same_sums_every_time) {
  const OwnedTensor y = upload(dtype_, shape_, random_values(dtype_, shape_, 1));
  const auto workspace = GuardedTensor::workspace(bias_workspace_bytes(dtype_, rows_, c_));
  Values first;
  for (int call = 0; call < 3; ++call) {
    const OwnedTensor dy = upload(dtype_, shape_, random_values(dtype_, shape_, 2)), dbias = not_a_number(dtype_, {c_});
    bias_activation_backward(space_, activation_, y.get(), dy.get(), dbias.get(), Store::replace, workspace.get());
    if (call == 0) first = download(dbias.get());
    EXPECT_EQ(download(dbias.get()), first);
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, BiasTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64),
                                          testing::Values(Activation::none, Activation::relu, Activation::tanh,
                                                          Activation::sigmoid, Activation::gelu),
                                          testing::Values(std::tuple(1, 1), std::tuple(1, 77), std::tuple(300, 1),
                                                          std::tuple(131, 10), std::tuple(257, 32), std::tuple(64, 33),
                                                          std::tuple(1001, 67), std::tuple(4200, 3))),
                         [](const testing::TestParamInfo<Parameters>& info) {
                           const auto& size = std::get<2>(info.param);
                           return testing::PrintToString(std::get<0>(info.param)) + "_" +
                                  testing::PrintToString(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<0>(size)) + "x" + std::to_string(std::get<1>(size));
                         });

}  // namespace
}  // namespace lockstep::test
