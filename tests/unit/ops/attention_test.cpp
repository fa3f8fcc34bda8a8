// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/portable/products.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/portable/attention_gpu.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Attended {
  std::vector<double> y, logsumexp, dq, dkv;
};

struct Inputs {
  OwnedTensor q, kv, dy;
  Inputs(const AttentionShape& s, double scale)
      : q(test::make_filled(s.dtype, {s.n, s.length, s.query_row()}, 1, scale)),
        kv(test::make_filled(s.dtype, {s.n, s.memory, 2 * s.width()}, 3, scale)),
        dy(test::make_filled(s.dtype, {s.n, s.length, s.width()}, 2)) {}
};

/// Computes attention by the portable provider, or (`for_gpus`) by the kernels for GPUs, which run in every build.
Attended attend(const AttentionShape& s, bool for_gpus = false, double scale = 1.0) {
  const ExecSpace space;
  const Inputs in(s, scale);
  const OwnedTensor y("y", s.dtype, in.dy.get().shape), dq("dq", s.dtype, in.q.get().shape),
      dkv("dkv", s.dtype, in.kv.get().shape);
  const OwnedTensor logsumexp("logsumexp", master_dtype(s.dtype), {s.n, s.heads, s.length});
  const auto planned = portable_attention(s);
  const auto bytes = static_cast<std::int64_t>(planned->workspace_bytes());
  const OwnedTensor workspace("workspace", DType::u8, {bytes + s.n * s.heads * s.length * 8});
  for (const auto* tensor : {&y, &dq, &dkv, &logsumexp, &workspace}) test::poison(tensor->get());
  if (for_gpus) {
    dispatch_float(s.dtype, [&]<class T>(T) {
      using C = Compute<T>;
      const auto keys = [&](const OwnedTensor& q, const OwnedTensor& kv) {
        return s.memory > 0 ? kv.get().as<T>() : q.get().as<T>() + s.width();
      };
      attention_forward_on_gpu<T>(space, s, in.q.get().as<const T>(), keys(in.q, in.kv), y.get().as<T>(),
                                  logsumexp.get().as<C>());
      attention_backward_on_gpu<T>(space, s, in.q.get().as<const T>(), keys(in.q, in.kv), y.get().as<const T>(),
                                   logsumexp.get().as<const C>(), in.dy.get().as<const T>(), dq.get().as<T>(),
                                   keys(dq, dkv), static_cast<C*>(workspace.get().data));
    });
  } else {
    planned->forward(space, in.q.get(), in.kv.get(), y.get(), logsumexp.get(), workspace.get());
    planned->backward(space, in.q.get(), in.kv.get(), y.get(), logsumexp.get(), in.dy.get(), dq.get(), dkv.get(),
                      workspace.get());
  }
  space.fence();
  return {test::values_of(y.get()), test::values_of(logsumexp.get()), test::values_of(dq.get()),
          test::values_of(dkv.get())};
}

/// Attention by its definition, in plain loops from the same numbers.
Attended reference(const AttentionShape& s, double scale = 1.0) {
  const Inputs in(s, scale);
  auto q = test::values_of(in.q.get()), kv = test::values_of(in.kv.get());
  const auto dy = test::values_of(in.dy.get());
  Attended out{std::vector<double>(dy.size()), {}, std::vector<double>(q.size()), std::vector<double>(kv.size())};
  const double unit = 1 / std::sqrt(static_cast<double>(s.head_size));
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      // Element j of the query (part 0), key (1) or value (2) at position t, among the inputs or their gradients.
      const auto element = [&](std::vector<double>& of_q, std::vector<double>& of_kv, std::int64_t part, std::int64_t t,
                               std::int64_t j) -> double& {
        const std::int64_t column = head * s.head_size + j;
        if (s.memory > 0 && part > 0)
          return of_kv[static_cast<std::size_t>(((i * s.memory + t) * 2 + part - 1) * s.width() + column)];
        return of_q[static_cast<std::size_t>((i * s.length + t) * s.query_row() + part * s.width() + column)];
      };
      const auto value = [&](std::int64_t part, std::int64_t t, std::int64_t j) { return element(q, kv, part, t, j); };
      const auto gradient = [&](std::int64_t part, std::int64_t t, std::int64_t j) -> double& {
        return element(out.dq, out.dkv, part, t, j);
      };
      const auto y_at = [&](std::int64_t t, std::int64_t j) {
        return static_cast<std::size_t>((i * s.length + t) * s.width() + head * s.head_size + j);
      };
      for (std::int64_t t = 0; t < s.length; ++t) {
        const std::int64_t keys = s.causal ? t + 1 : s.keys();
        std::vector<double> scores(static_cast<std::size_t>(keys)), dp(scores.size());
        for (std::int64_t k = 0; k < keys; ++k)
          for (std::int64_t j = 0; j < s.head_size; ++j) {
            scores[static_cast<std::size_t>(k)] += unit * value(0, t, j) * value(1, k, j);
            dp[static_cast<std::size_t>(k)] += dy[y_at(t, j)] * value(2, k, j);
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
            out.y[y_at(t, j)] += p * value(2, k, j);
            gradient(0, t, j) += unit * ds * value(1, k, j);
            gradient(1, k, j) += unit * ds * value(0, t, j);
            gradient(2, k, j) += p * dy[y_at(t, j)];
          }
      }
    }
  return out;
}

void expect_near(const Attended& got, const Attended& right, double tolerance) {
  EXPECT_LT(test::largest_difference(got.y, right.y), tolerance);
  EXPECT_LT(test::largest_difference(got.logsumexp, right.logsumexp), tolerance);
  EXPECT_LT(test::largest_difference(got.dq, right.dq), tolerance);
  EXPECT_LT(test::largest_difference(got.dkv, right.dkv), tolerance);
}

AttentionShape with_memory(AttentionShape shape, std::int64_t positions) {
  shape.memory = positions;
  return shape;
}

const AttentionShape shapes[] = {{2, 7, 3, 5, true},
                                 {1, 1, 2, 3, false},
                                 {1, 16, 1, 16, true},
                                 {2, 33, 2, 8, false},
                                 {1, 97, 1, 33, true},
                                 {1, 205, 2, 7, false},
                                 {1, 250, 1, 64, true},
                                 {3, 12, 5, 1, true},
                                 {1, 131, 1, 100, true},
                                 {1, 66, 2, 130, false},
                                 with_memory({2, 7, 3, 5, false}, 19),
                                 with_memory({1, 33, 2, 8, false}, 1),
                                 with_memory({2, 1, 1, 33, false}, 205),
                                 with_memory({1, 130, 1, 70, false}, 67)};

TEST(Attention, IsWhatTheDefinitionSays) {
  for (AttentionShape s : shapes)
    for (const DType dtype : {DType::f64, DType::f32}) {
      s.dtype = dtype;
      SCOPED_TRACE(fmt::format("{} positions to {}, {} heads of {}, {}", s.length, s.keys(), s.heads, s.head_size,
                               name_of(dtype)));
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
      const Attended right = reference(s);  // from the rounded inputs: only y, dq and dkv are rounded besides
      for (const bool for_gpus : {false, true}) {
        const Attended narrow = attend(s, for_gpus);
        EXPECT_LT(test::largest_difference(narrow.y, right.y), rounding);
        EXPECT_LT(test::largest_difference(narrow.dq, right.dq), 2 * rounding);
        EXPECT_LT(test::largest_difference(narrow.dkv, right.dkv), 2 * rounding);
      }
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 120, 1, 8, true, DType::f32};
  for (const bool for_gpus : {false, true})
    EXPECT_LT(test::largest_difference(attend(s, for_gpus, 100.0).y, reference(s, 100.0).y), 1e-2);
}

TEST(Attention, MemoryIsLinearInTheLength) {
  const AttentionShape once{1, 1000, 2, 16}, twice{1, 2000, 2, 16};
  const std::size_t a = portable_attention(once)->workspace_bytes(), b = portable_attention(twice)->workspace_bytes();
  EXPECT_LE(b, 2 * a);
}

}  // namespace
}  // namespace lockstep
