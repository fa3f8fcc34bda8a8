// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/embedding.hpp"

#include <gtest/gtest.h>

#include "ops/row_parts.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// More tokens than GPUs have shares of them, tokens that come again, and one that never does.
TEST(EmbeddingOps, GradientsOfALargeVocabulary) {
  const ExecSpace space;
  const std::int64_t vocabulary = 2500, features = 3, count = 700;
  std::vector<std::int32_t> tokens;
  for (std::int64_t place = 0; place < count; ++place)
    tokens.push_back(static_cast<std::int32_t>(place % 7 == 0 ? 2499 : place * 37 % 2499));
  const std::vector<double> dy = test::filling(1, count * features);
  std::vector<double> expected(static_cast<std::size_t>(vocabulary * features));
  for (std::size_t place = 0; place < tokens.size(); ++place)
    for (std::size_t j = 0; j < 3; ++j) expected[static_cast<std::size_t>(tokens[place]) * 3 + j] += dy[place * 3 + j];

  const OwnedTensor given = test::make_classes(tokens), gradient = test::make_tensor(DType::f64, {count, features}, dy);
  const OwnedTensor dweight("dweight", DType::f64, {vocabulary, features});
  test::poison(dweight.get());
  embedding_backward(space, given.get(), gradient.get(), dweight.get(), Store::replace);
  space.fence();
  EXPECT_LT(test::largest_difference(test::values_of(dweight.get()), expected), 1e-14);
}

TEST(Rows, OfElementsBeyond32Bits) {
  const std::int64_t edge = std::int64_t{1} << 32;
  for (const std::int64_t c : {std::int64_t{1}, std::int64_t{7}, edge - 1, edge, edge + 1})
    for (const std::int64_t i : {std::int64_t{0}, c - 1, c, edge - 1, edge, edge + 1, 5 * edge + 3})
      EXPECT_EQ(row_of(i, c), i / c) << i << " of rows of " << c;
}

}  // namespace
}  // namespace lockstep
