// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include <gtest/gtest.h>

#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Sizes {
  std::int64_t n, k, d;
  friend void PrintTo(const Sizes& s, std::ostream* out) { *out << s.n << "×" << s.k << "×" << s.d; }
};

class DotInteractionOps : public testing::TestWithParam<std::tuple<DType, Sizes>> {};

TEST_P(DotInteractionOps, AgreeWithPlainLoops) {
  const auto& [dtype, sizes] = GetParam();
  const auto [n, k, d] = sizes;
  const ExecSpace space;
  const Shape output{n, d + k * (k + 1) / 2};
  const auto first = test::rounded(dtype, test::filling(1, n * d)),
             others = test::rounded(dtype, test::filling(2, n * k * d)),
             dy = test::rounded(dtype, test::filling(3, output.count()));
  std::vector<double> y, dfirst(first.size()), dothers(others.size());
  std::size_t place = 0;
  for (std::int64_t e = 0; e < n; ++e) {
    const auto at = [&](auto& f, auto& o, std::int64_t i) { return i == 0 ? &f[e * d] : &o[(e * k + i - 1) * d]; };
    for (std::int64_t c = 0; c < d; ++c) {
      dfirst[static_cast<std::size_t>(e * d + c)] += dy[place++];
      y.push_back(at(first, others, 0)[c]);
    }
    for (std::int64_t i = 1; i <= k; ++i)
      for (std::int64_t j = 0; j < i; ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < d; ++c) {
          const double a = at(first, others, i)[c], b = at(first, others, j)[c];
          sum += a * b;
          at(dfirst, dothers, i)[c] += dy[place] * b;
          at(dfirst, dothers, j)[c] += dy[place] * a;
        }
        y.push_back(sum);
        ++place;
      }
  }
  const OwnedTensor given_first = test::make_tensor(dtype, {n, d}, first),
                    given_others = test::make_tensor(dtype, {n, k, d}, others),
                    given_dy = test::make_tensor(dtype, output, dy);
  const OwnedTensor made("y", dtype, output), made_first("dfirst", dtype, {n, d}),
      made_others("dothers", dtype, {n, k, d});
  const double tolerance = std::max(1e-14, 4 * test::rounding_error(dtype)) * static_cast<double>(8 + d + k);
  dot_interaction_forward(space, given_first.get(), given_others.get(), made.get());
  space.fence();
  EXPECT_LT(test::largest_difference(test::values_of(made.get()), y), tolerance);
  // Both gradients together, and each alone.
  for (const auto& [wants_first, wants_others] : {std::pair(true, true), {true, false}, {false, true}}) {
    test::poison(made_first.get());
    test::poison(made_others.get());
    dot_interaction_backward(space, given_first.get(), given_others.get(), given_dy.get(),
                             wants_first ? made_first.get() : Tensor{}, wants_others ? made_others.get() : Tensor{});
    space.fence();
    if (wants_first) {
      EXPECT_LT(test::largest_difference(test::values_of(made_first.get()), dfirst), tolerance);
    }
    if (wants_others) {
      EXPECT_LT(test::largest_difference(test::values_of(made_others.get()), dothers), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DotInteractionOps,
                         testing::Combine(testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                                          testing::Values(Sizes{3, 4, 5}, Sizes{1, 1, 1}, Sizes{2, 7, 37},
                                                          Sizes{2, 1, 64})));

}  // namespace
}  // namespace lockstep
