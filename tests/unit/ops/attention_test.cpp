// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/attention.hpp"

#include <gtest/gtest.h>

#include "ops/portable/attention_gpu.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Attended {
  std::vector<double> y, logsumexp, dqkv;
};

/// By ops/attention.hpp, or (`plain`) by the kernels that take a score at a time.
Attended attend(const AttentionShape& s, bool plain, double scale = 1.0) {
  const ExecSpace space;
  const OwnedTensor qkv = test::make_filled(s.dtype, {s.n, s.length, 3 * s.width()}, 1, scale);
  const OwnedTensor dy = test::make_filled(s.dtype, {s.n, s.length, s.width()}, 2);
  const OwnedTensor y("y", s.dtype, dy.get().shape), dqkv("dqkv", s.dtype, qkv.get().shape);
  const OwnedTensor logsumexp("logsumexp", master_dtype(s.dtype), {s.n, s.heads, s.length});
  const auto bytes = static_cast<std::int64_t>(attention_workspace_bytes(s));
  const OwnedTensor workspace("workspace", DType::u8, {bytes + s.n * s.heads * s.length * 8});
  for (const auto* tensor : {&y, &dqkv, &logsumexp, &workspace}) test::poison(tensor->get());
  if (plain) {
    dispatch_float(s.dtype, [&]<class T>(T) {
      using C = Compute<T>;
      attention_forward_on_gpu<T>(space, s, qkv.get().as<const T>(), y.get().as<T>(), logsumexp.get().as<C>());
      attention_backward_on_gpu<T>(space, s, qkv.get().as<const T>(), y.get().as<const T>(),
                                   logsumexp.get().as<const C>(), dy.get().as<const T>(), dqkv.get().as<T>(),
                                   static_cast<C*>(workspace.get().data));
    });
  } else {
    attention_forward(space, s, qkv.get(), y.get(), logsumexp.get(), workspace.get());
    attention_backward(space, s, qkv.get(), y.get(), logsumexp.get(), dy.get(), dqkv.get(), workspace.get());
  }
  space.fence();
  return {test::values_of(y.get()), test::values_of(logsumexp.get()), test::values_of(dqkv.get())};
}

const AttentionShape shapes[] = {{2, 7, 3, 5, true},    {1, 1, 2, 3, false},  {1, 16, 1, 16, true},
                                 {2, 33, 2, 8, false},  {1, 97, 1, 33, true}, {1, 205, 2, 7, false},
                                 {1, 250, 1, 64, true}, {3, 12, 5, 1, true}};

TEST(Attention, BlocksAgreeWithScoresOneAtATime) {
  for (AttentionShape s : shapes)
    for (const DType dtype : {DType::f64, DType::f32}) {
      s.dtype = dtype;
      const Attended blocks = attend(s, false), plain = attend(s, true);
      const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
      SCOPED_TRACE(fmt::format("{} positions, {} heads of {}, {}", s.length, s.heads, s.head_size, name_of(dtype)));
      EXPECT_LT(test::largest_difference(blocks.y, plain.y), tolerance);
      EXPECT_LT(test::largest_difference(blocks.logsumexp, plain.logsumexp), tolerance);
      EXPECT_LT(test::largest_difference(blocks.dqkv, plain.dqkv), tolerance);
    }
}

TEST(Attention, SixteenBitsAreStorageAlone) {
  for (AttentionShape s : shapes) {
    const Attended right = attend(s, true);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      s.dtype = dtype;
      const Attended narrow = attend(s, false), wide = attend(s, true);
      const double rounding = dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
      EXPECT_LT(test::largest_difference(narrow.y, wide.y), rounding) << "the same arithmetic, rounded once";
      EXPECT_LT(test::largest_difference(narrow.dqkv, wide.dqkv), 2 * rounding);
      EXPECT_LT(test::largest_difference(narrow.y, right.y), 4 * rounding);
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionShape s{1, 120, 1, 8, true, DType::f32};
  const Attended blocks = attend(s, false, 100.0);
  s.dtype = DType::f64;
  EXPECT_LT(test::largest_difference(blocks.y, attend(s, true, 100.0).y), 1e-2);
}

TEST(Attention, MemoryIsLinearInTheLength) {
  const AttentionShape once{1, 1000, 2, 16}, twice{1, 2000, 2, 16};
  const std::size_t a = attention_workspace_bytes(once), b = attention_workspace_bytes(twice);
  EXPECT_LE(b, 2 * a);
}

}  // namespace
}  // namespace lockstep
