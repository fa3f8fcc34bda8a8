// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include "reference/inner_product.hpp"

#include "products_support.hpp"

namespace lockstep::test {
namespace {

struct InnerProductCase {
  std::string name;
  std::int64_t n, in, out;
  bool bias = true;
  Activation activation = Activation::none;

  friend void PrintTo(const InnerProductCase& c, std::ostream* out) { *out << c.name; }
};

using InnerProductParameters = std::tuple<std::string, DType, InnerProductCase>;
class InnerProductTest : public testing::TestWithParam<InnerProductParameters> {};

void expect_the_definition(InnerProduct& product, const InnerProductShape& shape) {
  const ExecSpace space;
  const DType master = master_dtype(shape.dtype);
  const double storing = storing_error(shape.dtype);
  const Shape x_shape{shape.n, shape.in}, weight_shape{shape.out, shape.in}, y_shape{shape.n, shape.out};
  const Values x = random_values(shape.dtype, x_shape, 1), weight = random_values(shape.dtype, weight_shape, 2);
  const Values bias = shape.bias ? random_values(shape.dtype, {shape.out}, 3) : Values();
  const Values dy = random_values(shape.dtype, y_shape, 4),
               dweight_before = random_values(shape.dtype, weight_shape, 5);
  const OwnedTensor tx = upload(shape.dtype, x_shape, x), tweight = upload(shape.dtype, weight_shape, weight);
  const OwnedTensor tbias = shape.bias ? upload(master, {shape.out}, bias) : OwnedTensor();
  const OwnedTensor tdy = upload(shape.dtype, y_shape, dy);
  const auto ty = GuardedTensor::not_a_number(shape.dtype, y_shape),
             tdx = GuardedTensor::not_a_number(shape.dtype, x_shape),
             tdweight = GuardedTensor::not_a_number(master, weight_shape),
             workspace = GuardedTensor::workspace(product.workspace_bytes());

  for (int call = 0; call < 2; ++call) {  // a plan can be used repeatedly
    product.set_weight(tweight.get());
    product.forward(space, tx.get(), tbias.get(), ty.get(), workspace.get());
    expect_near(download(ty.get()), reference::inner_product_forward(shape, x, weight, bias),
                tolerance(shape.dtype, shape.in), storing);
    product.backward_data(space, tdy.get(), tdx.get(), workspace.get());
    expect_near(download(tdx.get()), reference::inner_product_backward_data(shape, dy, weight),
                tolerance(shape.dtype, shape.out), storing);

    Values expected(dweight_before.size());
    reference::inner_product_backward_weight(shape, x, dy, expected);
    product.backward_weight(space, tx.get(), tdy.get(), tdweight.get(), Store::replace, workspace.get());
    expect_near(download(tdweight.get()), expected, tolerance(shape.dtype, shape.n), storing);

    const GuardedTensor total(master, weight_shape, dweight_before);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += dweight_before[i];
    product.backward_weight(space, tx.get(), tdy.get(), total.get(), Store::add, workspace.get());
    total.expect_guards("a weight gradient that is added to");
    expect_near(download(total.get()), expected, tolerance(shape.dtype, shape.n), storing);
  }
  ty.expect_guards("y");
  tdx.expect_guards("the gradient of x");
  tdweight.expect_guards("the weight gradient");
  workspace.expect_guards("the workspace");
}

TEST_P(InnerProductTest, agrees_with_the_definition) {
  const auto& [provider_name, dtype, chosen] = GetParam();
  const InnerProductShape shape{chosen.n, chosen.in, chosen.out, dtype, chosen.bias, chosen.activation};
  const Provider* provider = find_provider(provider_name);
  if (provider == nullptr) GTEST_SKIP() << "not in this build";
  const auto product = provider->inner_product(shape);
  if (product == nullptr) GTEST_SKIP() << "not done by this provider";

  expect_the_definition(*product, shape);
}

const InnerProductCase inner_product_cases[] = {
    {"one_number", 1, 1, 1},
    {"no_example", 0, 5, 7},
    {"one_example", 1, 37, 11},
    {"one_feature", 13, 1, 29},
    {"one_output", 13, 29, 1},
    {"odd", 37, 53, 41, true, Activation::relu},
    {"no_bias", 19, 131, 67, false},
    {"no_bias_relu", 23, 61, 10, false, Activation::relu},
    {"longer_than_a_tile", 97, 259, 211, true, Activation::relu},
    {"even", 64, 128, 96, true, Activation::relu},
    {"tall", 301, 7, 5},
};

INSTANTIATE_TEST_SUITE_P(providers, InnerProductTest,
                         testing::Combine(testing::ValuesIn(all_providers()),
                                          testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::ValuesIn(inner_product_cases)),
                         [](const testing::TestParamInfo<InnerProductParameters>& info) {
                           return std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param))) + "_" +
                                  std::get<2>(info.param).name;
                         });

using ResizedParameters = std::tuple<std::string, DType>;
class ResizedInnerProductTest : public testing::TestWithParam<ResizedParameters> {};

TEST_P(ResizedInnerProductTest, agrees_with_the_definition) {
  const auto& [provider_name, dtype] = GetParam();
  const Provider* provider = find_provider(provider_name);
  if (provider == nullptr) GTEST_SKIP() << "not in this build";
  for (const std::int64_t in : {3, 14, 32})
    for (const std::int64_t out : {10, 56, 128})
      for (const std::int64_t uses : {1, 12}) {
        InnerProductShape shape{.n = 3, .in = in, .out = out, .dtype = dtype, .bias = false, .uses = uses};
        const auto product = provider->inner_product(shape);
        if (product == nullptr) GTEST_SKIP() << "not done by this provider";
        for (const std::int64_t n : {2, 1, 16, 3}) {
          SCOPED_TRACE(fmt::format("{} examples, {} in, {} out, {} uses", n, in, out, uses));
          shape.n = n;
          if (const auto resized = product->resized(n)) expect_the_definition(*resized, shape);
        }
      }
}

INSTANTIATE_TEST_SUITE_P(providers, ResizedInnerProductTest,
                         testing::Combine(testing::ValuesIn(all_providers()),
                                          testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16)),
                         [](const testing::TestParamInfo<ResizedParameters>& info) {
                           return std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param)));
                         });

TEST(ProvidersTest, automatic_always_finds_one) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_NE(plan_inner_product({}, {3, 5, 7, dtype, true, Activation::none}), nullptr);
    ConvolutionShape shape;
    shape.n = 2, shape.h = shape.w = 4, shape.c = 3, shape.filters = 5, shape.dtype = dtype;
    EXPECT_NE(plan_convolution({}, shape), nullptr);
  }
}

TEST(ProvidersTest, one_that_is_named_but_cannot_is_an_error_of_the_deck) {
  ProvidersConfig config;
  config.matmul = ProviderKind::onednn;
  try {
    plan_inner_product(config, {3, 5, 7, DType::f64, true, Activation::none});
    FAIL() << "oneDNN has no products in f64";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    EXPECT_NE(std::string(error.what()).find("providers.matmul"), std::string::npos);
  }
}

TEST(ProvidersTest, no_examples_are_no_error_whoever_is_named) {
  ProvidersConfig config;
  config.matmul = ProviderKind::onednn;
  EXPECT_NE(plan_inner_product(config, {0, 5, 7, DType::f32, true, Activation::none}), nullptr);
}

TEST(ProvidersTest, the_portable_one_is_last) { EXPECT_EQ(providers().back()->name(), "portable"); }

}  // namespace
}  // namespace lockstep::test
