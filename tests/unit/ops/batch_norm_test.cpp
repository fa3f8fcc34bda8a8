// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/norm/norm.hpp"

#include <gtest/gtest.h>

#include "reference/norm.hpp"
#include "support/fixtures.hpp"

namespace lockstep {

void PrintTo(const BatchNormOutput& output, std::ostream* out) {
  *out << (output.addition ? "addition" : "plain") << (output.relu ? ", relu" : "");
}

namespace {

/// A batch norm's tensors beside activations of one type.
struct Memory {
  Memory(DType dtype, std::int64_t c) {
    for (Tensor* member :
         {&state.mean, &state.m2, &state.inv_std, &state.scale, &state.shift, &state.sum_dy, &state.sum_dy_x})
      *member = make(dtype, c);
    for (Tensor* member : {&gradients.weight, &gradients.bias, &gradients.running_mean, &gradients.running_var})
      *member = make(dtype, c);
  }
  Tensor make(DType dtype, std::int64_t c) {
    storage.emplace_back("state", master_dtype(dtype), Shape{c});
    test::poison(storage.back().get());
    return storage.back().get();
  }

  std::vector<OwnedTensor> storage;
  BatchNormState state;
  BatchNormGradients gradients;
};

Tensor rows(const Tensor& all, std::int64_t first, std::int64_t count) {
  const std::int64_t c = all.shape[-1];
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(first * c) * size_of(all.dtype),
          all.dtype,
          {count, c}};
}

struct Size {
  std::int64_t rows, c;

  friend void PrintTo(const Size& size, std::ostream* out) { *out << size.rows << "×" << size.c; }
};

class BatchNormTest : public testing::TestWithParam<std::tuple<DType, Size, BatchNormOutput>> {};

TEST_P(BatchNormTest, AgreesWithPlainLoops) {
  const auto& [dtype, size, output] = GetParam();
  const ExecSpace space;
  const DType master = master_dtype(dtype);
  const Shape shape{size.rows, size.c}, channels{size.c};
  const double epsilon = 1e-3;
  // Values far from 0 compared with their spread, for which a difference of sums of squares would lose all digits.
  auto values = test::filling(1, shape.count());
  for (double& value : values) value += 8;
  const OwnedTensor x = test::make_tensor(dtype, shape, values), dy = test::make_filled(dtype, shape, 2);
  const OwnedTensor weight = test::make_filled(master, channels, 3), bias = test::make_filled(master, channels, 4);
  const OwnedTensor running_mean = test::make_filled(master, channels, 5),
                    running_var = test::make_filled(master, channels, 6);
  const OwnedTensor addend = output.addition ? test::make_filled(dtype, shape, 7, 3) : OwnedTensor();
  const OwnedTensor y("y", dtype, shape);
  const OwnedTensor workspace("workspace", DType::u8,
                              {static_cast<std::int64_t>(batch_norm_workspace_bytes(dtype, size.rows, size.c))});
  test::poison(y.get());
  test::poison(workspace.get());
  Memory memory(dtype, size.c);

  // Pieces of different sizes, like the micro-batches of a step.
  const std::int64_t cuts[] = {0, size.rows / 3, size.rows / 2, size.rows};
  for (int i = 0; i < 3; ++i)
    if (cuts[i] < cuts[i + 1])
      batch_norm_observe(space, rows(x.get(), cuts[i], cuts[i + 1] - cuts[i]), cuts[i], memory.state, workspace.get());
  batch_norm_conclude(space, size.rows, epsilon, memory.state);
  batch_norm_coefficients(space, weight.get(), bias.get(), memory.state);
  batch_norm_forward(space, x.get(), addend.get(), memory.state, output, y.get());
  space.fence();

  const auto added = output.addition ? test::values_of(addend.get()) : std::vector<double>{};
  const auto expected = reference::batch_norm(epsilon, test::values_of(x.get()), test::values_of(weight.get()),
                                              test::values_of(bias.get()), added, output.relu,
                                              test::values_of(dy.get()));
  const double sums = dtype == DType::f64 ? 1e-12 : 2e-4, each = sums + 2 * test::rounding_error(dtype);
  EXPECT_LT(test::largest_difference(test::values_of(memory.state.mean), expected.mean), sums / 100);
  EXPECT_LT(test::largest_difference(test::values_of(y.get()), expected.y), each);

  bool first = true;
  for (int i = 0; i < 3; ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    const std::int64_t count = cuts[i + 1] - cuts[i];
    batch_norm_observe_backward(space, rows(x.get(), cuts[i], count), rows(y.get(), cuts[i], count), output, first,
                                rows(dy.get(), cuts[i], count), memory.state, workspace.get());
    first = false;
  }
  for (const Store store : {Store::replace, Store::add})
    batch_norm_conclude_backward(space, size.rows, 3, 0.1, running_mean.get(), running_var.get(), memory.state, store,
                                 memory.gradients);
  space.fence();
  if (output.addition) EXPECT_EQ(test::values_of(dy.get()), expected.dy);
  batch_norm_backward(space, size.rows, x.get(), output, dy.get(), memory.state, dy.get());  // in place
  space.fence();
  EXPECT_LT(test::largest_difference(test::values_of(dy.get()), expected.dx), each);

  const auto dweight = test::values_of(memory.gradients.weight), dbias = test::values_of(memory.gradients.bias);
  const auto d_mean = test::values_of(memory.gradients.running_mean),
             d_var = test::values_of(memory.gradients.running_var);
  const auto mean_before = test::values_of(running_mean.get()), var_before = test::values_of(running_var.get());
  // One row has no variance, and leaves the running one as it is.
  const double unbias = static_cast<double>(size.rows) / static_cast<double>(std::max<std::int64_t>(1, size.rows - 1));
  for (std::size_t j = 0; j < dweight.size(); ++j) {
    const double scale = std::max(1.0, std::abs(expected.dweight[j]));
    EXPECT_NEAR(dweight[j], 2 * expected.dweight[j], scale * sums);
    EXPECT_NEAR(dbias[j], 2 * expected.dbias[j], std::max(1.0, std::abs(expected.dbias[j])) * sums);
    EXPECT_NEAR(d_mean[j], 2 * 3 * 0.1 * (expected.mean[j] - mean_before[j]), sums);
    const double increment = size.rows > 1 ? unbias * expected.variance[j] - var_before[j] : 0;
    EXPECT_NEAR(d_var[j], 2 * 3 * 0.1 * increment, sums);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BatchNormTest,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Size{2, 5}, Size{1, 3}, Size{301, 16}, Size{200, 32},
                                                          Size{129, 67}, Size{1000, 1}, Size{4200, 1}, Size{900, 64}),
                                          testing::Values(BatchNormOutput{}, BatchNormOutput{.relu = true},
                                                          BatchNormOutput{.addition = true},
                                                          BatchNormOutput{.relu = true, .addition = true})));

}  // namespace
}  // namespace lockstep
