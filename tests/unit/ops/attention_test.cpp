// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/portable/attention_gpu.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Attended {
  std::vector<double> y, logsumexp, dqkv;
};

struct Inputs {
  OwnedTensor qkv, dy;
  Inputs(const AttentionShape& s, double scale)
      : qkv(test::make_filled(s.dtype, {s.n, s.length, 3 * s.width()}, 1, scale)),
        dy(test::make_filled(s.dtype, {s.n, s.length, s.width()}, 2)) {}
};

/// By the portable provider, or (`one_at_a_time`) by the kernels for GPUs whatever this build is for.
Attended attend(const AttentionShape& s, bool one_at_a_time = false, double scale = 1.0) {
  const ExecSpace space;
  const Inputs in(s, scale);
  const OwnedTensor y("y", s.dtype, in.dy.get().shape), dqkv("dqkv", s.dtype, in.qkv.get().shape);
  const OwnedTensor logsumexp("logsumexp", master_dtype(s.dtype), {s.n, s.heads, s.length});
  const auto planned = portable_attention(s);
  const auto bytes = static_cast<std::int64_t>(planned->workspace_bytes());
  const OwnedTensor workspace("workspace", DType::u8, {bytes + s.n * s.heads * s.length * 8});
  for (const auto* tensor : {&y, &dqkv, &logsumexp, &workspace}) test::poison(tensor->get());
  if (one_at_a_time) {
    dispatch_float(s.dtype, [&]<class T>(T) {
      using C = Compute<T>;
      attention_forward_on_gpu<T>(space, s, in.qkv.get().as<const T>(), y.get().as<T>(), logsumexp.get().as<C>());
      attention_backward_on_gpu<T>(space, s, in.qkv.get().as<const T>(), y.get().as<const T>(),
                                   logsumexp.get().as<const C>(), in.dy.get().as<const T>(), dqkv.get().as<T>(),
                                   static_cast<C*>(workspace.get().data));
    });
  } else {
    planned->forward(space, in.qkv.get(), y.get(), logsumexp.get(), workspace.get());
    planned->backward(space, in.qkv.get(), y.get(), logsumexp.get(), in.dy.get(), dqkv.get(), workspace.get());
  }
  space.fence();
  return {test::values_of(y.get()), test::values_of(logsumexp.get()), test::values_of(dqkv.get())};
}

/// By the definition, in plain loops, from the same numbers.
Attended reference(const AttentionShape& s, double scale = 1.0) {
  const Inputs in(s, scale);
  const auto qkv = test::values_of(in.qkv.get()), dy = test::values_of(in.dy.get());
  Attended out{std::vector<double>(dy.size()), {}, std::vector<double>(qkv.size())};
  const double unit = 1 / std::sqrt(static_cast<double>(s.head_size));
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      // Element j of the query (part 0), key (1) or value (2) at position t; of y at position t.
      const auto at = [&](std::int64_t part, std::int64_t t, std::int64_t j) {
        return static_cast<std::size_t>(((i * s.length + t) * 3 + part) * s.width() + head * s.head_size + j);
      };
      const auto y_at = [&](std::int64_t t, std::int64_t j) {
        return static_cast<std::size_t>((i * s.length + t) * s.width() + head * s.head_size + j);
      };
      for (std::int64_t t = 0; t < s.length; ++t) {
        const std::int64_t keys = s.causal ? t + 1 : s.length;
        std::vector<double> scores(static_cast<std::size_t>(keys)), dp(scores.size());
        for (std::int64_t k = 0; k < keys; ++k)
          for (std::int64_t j = 0; j < s.head_size; ++j) {
            scores[static_cast<std::size_t>(k)] += unit * qkv[at(0, t, j)] * qkv[at(1, k, j)];
            dp[static_cast<std::size_t>(k)] += dy[y_at(t, j)] * qkv[at(2, k, j)];
          }
        const double top = *std::ranges::max_element(scores);
        double total = 0, inner = 0;
        for (double& score : scores) total += score = std::exp(score - top);
        for (double& score : scores) score /= total;
        for (std::size_t k = 0; k < scores.size(); ++k) inner += scores[k] * dp[k];
        out.logsumexp.push_back(top + std::log(total));
        for (std::int64_t k = 0; k < keys; ++k)
          for (std::int64_t j = 0; j < s.head_size; ++j) {
            const double p = scores[static_cast<std::size_t>(k)], ds = p * (dp[static_cast<std::size_t>(k)] - inner);
            out.y[y_at(t, j)] += p * qkv[at(2, k, j)];
            out.dqkv[at(0, t, j)] += unit * ds * qkv[at(1, k, j)];
            out.dqkv[at(1, k, j)] += unit * ds * qkv[at(0, t, j)];
            out.dqkv[at(2, k, j)] += p * dy[y_at(t, j)];
          }
      }
    }
  return out;
}

void expect_near(const Attended& got, const Attended& right, double tolerance) {
  EXPECT_LT(test::largest_difference(got.y, right.y), tolerance);
  EXPECT_LT(test::largest_difference(got.logsumexp, right.logsumexp), tolerance);
  EXPECT_LT(test::largest_difference(got.dqkv, right.dqkv), tolerance);
}

const AttentionShape shapes[] = {{2, 7, 3, 5, true},    {1, 1, 2, 3, false},  {1, 16, 1, 16, true},
                                 {2, 33, 2, 8, false},  {1, 97, 1, 33, true}, {1, 205, 2, 7, false},
                                 {1, 250, 1, 64, true}, {3, 12, 5, 1, true}};

TEST(Attention, IsWhatTheDefinitionSays) {
  for (AttentionShape s : shapes)
    for (const DType dtype : {DType::f64, DType::f32}) {
      s.dtype = dtype;
      SCOPED_TRACE(fmt::format("{} positions, {} heads of {}, {}", s.length, s.heads, s.head_size, name_of(dtype)));
      const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
      const Attended right = reference(s);
      expect_near(attend(s), right, tolerance);
      expect_near(attend(s, true), right, tolerance);
    }
}

TEST(Attention, SixteenBitsAreStorageAlone) {
  for (AttentionShape s : shapes)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      s.dtype = dtype;
      const double rounding = dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
      const Attended right = reference(s);  // of the rounded inputs: nothing else is rounded but y and dqkv
      for (const bool one_at_a_time : {false, true}) {
        const Attended narrow = attend(s, one_at_a_time);
        EXPECT_LT(test::largest_difference(narrow.y, right.y), rounding);
        EXPECT_LT(test::largest_difference(narrow.dqkv, right.dqkv), 2 * rounding);
      }
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 120, 1, 8, true, DType::f32};
  for (const bool one_at_a_time : {false, true})
    EXPECT_LT(test::largest_difference(attend(s, one_at_a_time, 100.0).y, reference(s, 100.0).y), 1e-2);
}

TEST(Attention, MemoryIsLinearInTheLength) {
  const AttentionShape once{1, 1000, 2, 16}, twice{1, 2000, 2, 16};
  const std::size_t a = portable_attention(once)->workspace_bytes(), b = portable_attention(twice)->workspace_bytes();
  EXPECT_LE(b, 2 * a);
}

}  // namespace
}  // namespace lockstep
