// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include "reference/convolution.hpp"

#include "ops/portable/products.hpp"
#include "products_support.hpp"

namespace lockstep::test {
namespace {

struct ConvolutionCase {
  std::string name;
  std::int64_t n, h, w, c, filters, kernel_h, kernel_w;
  std::int64_t stride = 1;
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;

  friend void PrintTo(const ConvolutionCase& c, std::ostream* out) { *out << c.name; }
};

ConvolutionShape shape_of(const ConvolutionCase& k, DType dtype) {
  return {k.n,   k.h,    k.w,      k.c,     k.filters, k.kernel_h, k.kernel_w, k.stride,
          k.top, k.left, k.bottom, k.right, k.groups,  dtype,      k.bias,     k.activation};
}

using ConvolutionParameters = std::tuple<std::string, DType, ConvolutionCase>;
class ConvolutionTest : public testing::TestWithParam<ConvolutionParameters> {};

void expect_the_definition(Convolution& product, const ConvolutionShape& shape) {
  const ExecSpace space;
  const DType master = master_dtype(shape.dtype);
  const double storing = storing_error(shape.dtype);
  const Shape x_shape{shape.n, shape.h, shape.w, shape.c},
      y_shape{shape.n, shape.out_h(), shape.out_w(), shape.filters};
  const Shape weight_shape{shape.filters, shape.c / shape.groups, shape.kernel_h, shape.kernel_w};
  const std::int64_t taps = weight_shape.count() / shape.filters;
  const Values x = random_values(shape.dtype, x_shape, 1), weight = random_values(shape.dtype, weight_shape, 2);
  const Values bias = shape.bias ? random_values(shape.dtype, {shape.filters}, 3) : Values();
  const Values dy = random_values(shape.dtype, y_shape, 4),
               dweight_before = random_values(shape.dtype, weight_shape, 5);
  const OwnedTensor tx = upload(shape.dtype, x_shape, x), tweight = upload(shape.dtype, weight_shape, weight);
  const OwnedTensor tbias = shape.bias ? upload(master, {shape.filters}, bias) : OwnedTensor();
  const OwnedTensor tdy = upload(shape.dtype, y_shape, dy);
  const auto ty = GuardedTensor::not_a_number(shape.dtype, y_shape),
             tdx = GuardedTensor::not_a_number(shape.dtype, x_shape),
             tdweight = GuardedTensor::not_a_number(master, weight_shape),
             workspace = GuardedTensor::workspace(product.workspace_bytes());

  for (int call = 0; call < 2; ++call) {  // a plan can be used repeatedly
    product.set_weight(tweight.get());
    product.forward(space, tx.get(), tbias.get(), ty.get(), workspace.get());
    expect_near(download(ty.get()), reference::convolution_forward(shape, x, weight, bias),
                tolerance(shape.dtype, taps), storing);
    product.backward_data(space, tdy.get(), tdx.get(), workspace.get());
    expect_near(download(tdx.get()), reference::convolution_backward_data(shape, dy, weight),
                tolerance(shape.dtype, taps * shape.filters), storing);

    Values expected(dweight_before.size());
    reference::convolution_backward_weight(shape, x, dy, expected);
    const double allowed = tolerance(shape.dtype, shape.n * shape.out_h() * shape.out_w());
    product.backward_weight(space, tx.get(), tdy.get(), tdweight.get(), Store::replace, workspace.get());
    expect_near(download(tdweight.get()), expected, allowed, storing);

    const GuardedTensor total(master, weight_shape, dweight_before);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += dweight_before[i];
    product.backward_weight(space, tx.get(), tdy.get(), total.get(), Store::add, workspace.get());
    total.expect_guards("a weight gradient that is added to");
    expect_near(download(total.get()), expected, allowed, storing);
  }
  ty.expect_guards("y");
  tdx.expect_guards("the gradient of x");
  tdweight.expect_guards("the weight gradient");
  workspace.expect_guards("the workspace");
}

TEST_P(ConvolutionTest, agrees_with_the_definition) {
  const auto& [provider_name, dtype, k] = GetParam();
  const ConvolutionShape shape = shape_of(k, dtype);
  const Provider* provider = find_provider(provider_name);
  if (provider == nullptr) GTEST_SKIP() << "not in this build";
  const auto product = provider->convolution(shape);
  if (product == nullptr) GTEST_SKIP() << "not done by this provider";

  expect_the_definition(*product, shape);
}

const ConvolutionCase convolution_cases[] = {
    // name, n, h, w, c, filters, kernel, stride, pads, groups, bias, activation
    {"one_number", 1, 1, 1, 1, 1, 1, 1},
    {"no_image", 0, 5, 6, 3, 4, 3, 3, 1, 1, 1, 1, 1},
    {"no_image_pointwise", 0, 5, 6, 3, 4, 1, 1},
    {"pointwise", 3, 5, 7, 11, 13, 1, 1},
    {"pointwise_relu", 2, 6, 5, 9, 17, 1, 1, 1, 0, 0, 0, 0, 1, true, Activation::relu},
    {"pointwise_stride_2", 3, 7, 5, 6, 10, 1, 1, 2},
    {"same_3", 5, 9, 7, 5, 19, 3, 3, 1, 1, 1, 1, 1, 1, true, Activation::relu},
    {"first_layer", 3, 13, 11, 1, 32, 5, 5, 1, 2, 2, 2, 2, 1, true, Activation::relu},
    {"many_images", 37, 6, 5, 16, 8, 3, 3, 1, 1, 1, 1, 1},
    {"no_bias", 2, 8, 9, 3, 21, 5, 3, 1, 2, 1, 2, 1, 1, false},
    {"no_bias_relu", 2, 8, 9, 3, 21, 3, 3, 1, 0, 0, 0, 0, 1, false, Activation::relu},
    {"kernel_is_input", 3, 7, 6, 4, 9, 7, 6},
    {"one_image", 1, 10, 10, 3, 7, 3, 3, 1, 1, 1, 1, 1},
    {"uneven_padding", 2, 7, 9, 6, 5, 3, 4, 1, 0, 2, 1, 1},
    {"stride_2", 3, 9, 11, 7, 12, 3, 3, 2, 1, 1, 1, 1},
    {"stride_2_uneven", 2, 8, 10, 7, 12, 3, 3, 2, 0, 0, 1, 1, 1, true, Activation::relu},
    {"stride_leaves_gaps", 2, 11, 10, 3, 5, 2, 2, 3},
    {"groups", 3, 6, 7, 6, 15, 3, 3, 1, 1, 1, 1, 1, 3, true, Activation::relu},
    {"groups_uneven_padding", 2, 6, 8, 8, 4, 4, 4, 1, 1, 1, 2, 2, 2},
    {"groups_pointwise", 3, 6, 7, 8, 12, 1, 1, 1, 0, 0, 0, 0, 4},
    {"depthwise", 2, 9, 8, 7, 7, 3, 3, 1, 1, 1, 1, 1, 7},
    {"depthwise_pointwise", 2, 5, 4, 3, 3, 1, 1, 1, 0, 0, 0, 0, 3},
    {"depthwise_stride_2", 2, 9, 8, 5, 10, 3, 3, 2, 1, 1, 1, 1, 5},
    // Shapes wide enough for weight gradients from windows (has_window_gradient).
    {"wide", 2, 9, 17, 6, 16, 3, 3, 1, 1, 1, 1, 1},
    {"wide_one_line", 3, 4, 150, 5, 21, 2, 4, 1, 1, 3, 0, 0},
    {"wide_stride_2", 3, 21, 37, 7, 40, 3, 3, 2, 0, 2, 1, 1, 1, false},
    {"wide_stride_leaves_gaps", 2, 9, 51, 9, 5, 2, 2, 3},
    {"wide_groups", 2, 7, 20, 12, 34, 3, 3, 1, 1, 1, 1, 1, 2},
    {"even_sizes", 2, 8, 8, 32, 64, 5, 5, 1, 2, 2, 2, 2, 1, true, Activation::relu},
};

TEST(WindowGradient, IsWhatWideCasesTest) {
  int wide = 0;
  for (const ConvolutionCase& k : convolution_cases) {
    if (!k.name.starts_with("wide")) continue;
    EXPECT_EQ(has_window_gradient(shape_of(k, DType::f32)), !thread_per_element) << k.name;
    EXPECT_EQ(has_window_gradient(shape_of(k, DType::f64)), !thread_per_element) << k.name;
    EXPECT_FALSE(has_window_gradient(shape_of(k, DType::bf16))) << k.name;
    ++wide;
  }
  EXPECT_GE(wide, 5);
}

INSTANTIATE_TEST_SUITE_P(providers, ConvolutionTest,
                         testing::Combine(testing::ValuesIn(all_providers()),
                                          testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::ValuesIn(convolution_cases)),
                         [](const testing::TestParamInfo<ConvolutionParameters>& info) {
                           return std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param))) + "_" +
                                  std::get<2>(info.param).name;
                         });

/// Libraries gather the pixels of strided 1×1 convolutions in vectors, which few channels do not fill: oneDNN 3.7
/// writes beyond its workspace there.
class StridedPointwiseTest : public testing::TestWithParam<std::string> {};

TEST_P(StridedPointwiseTest, stays_within_its_memory) {
  const Provider* provider = find_provider(GetParam());
  if (provider == nullptr) GTEST_SKIP() << "not in this build";
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const std::int64_t c : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32})
      for (const std::int64_t stride : {2, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} channels, stride {}", name_of(dtype), c, stride));
        const ConvolutionShape shape = shape_of({"", 5, 28, 28, c, 8, 1, 1, stride}, dtype);
        if (const auto product = provider->convolution(shape)) expect_the_definition(*product, shape);
      }
}

INSTANTIATE_TEST_SUITE_P(providers, StridedPointwiseTest, testing::ValuesIn(all_providers()),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

using ResizedParameters = std::tuple<std::string, DType>;
class ResizedConvolutionTest : public testing::TestWithParam<ResizedParameters> {};

TEST_P(ResizedConvolutionTest, agrees_with_the_definition) {
  const auto& [provider_name, dtype] = GetParam();
  const Provider* provider = find_provider(provider_name);
  if (provider == nullptr) GTEST_SKIP() << "not in this build";
  for (const ConvolutionCase& k : convolution_cases) {
    ConvolutionShape shape = shape_of(k, dtype);
    if (shape.n == 0) continue;
    const auto product = provider->convolution(shape);
    if (product == nullptr) continue;
    for (const std::int64_t n : {shape.n + 2, std::int64_t{1}}) {
      SCOPED_TRACE(fmt::format("{}, {} images", k.name, n));
      shape.n = n;
      // A library may decline a size, as oneDNN does in fp16 where it would run its reference loops.
      if (const auto resized = product->resized(n)) expect_the_definition(*resized, shape);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(providers, ResizedConvolutionTest,
                         testing::Combine(testing::ValuesIn(all_providers()),
                                          testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16)),
                         [](const testing::TestParamInfo<ResizedParameters>& info) {
                           return std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace lockstep::test
