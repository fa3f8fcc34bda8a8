// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/sequence/embedding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/row_parts.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

void backward(const Tensor& tokens, const Tensor& dy, const Tensor& dweight, Store store) {
  const Buffer workspace(
      "workspace",
      std::max<std::size_t>(8, embedding_workspace_bytes(dy.dtype, tokens.count(), dweight.shape[0], dy.shape[-1])));
  const Tensor all = workspace.tensor(0, DType::u8, {static_cast<std::int64_t>(workspace.size())});
  test::poison(all);
  const ExecSpace space;
  embedding_backward(space, tokens, dy, dweight, store, all);
  space.fence();
}

/// Tokens that occur several times, and one that never does; rows of an odd number of features, and of whole packs.
TEST(EmbeddingOps, GradientsOfALargeVocabulary) {
  const std::int64_t vocabulary = 2500, count = 700;
  std::vector<std::int32_t> tokens;
  for (std::int64_t place = 0; place < count; ++place)
    tokens.push_back(static_cast<std::int32_t>(place % 7 == 0 ? 2499 : place * 37 % 2499));
  const OwnedTensor given = test::make_classes(tokens);
  for (const std::int64_t features : {3, 16}) {
    const auto width = static_cast<std::size_t>(features);
    const std::vector<double> dy = test::filling(1, count * features);
    std::vector<double> expected(static_cast<std::size_t>(vocabulary) * width);
    for (std::size_t place = 0; place < tokens.size(); ++place)
      for (std::size_t j = 0; j < width; ++j)
        expected[static_cast<std::size_t>(tokens[place]) * width + j] += dy[place * width + j];

    const OwnedTensor gradient = test::make_tensor(DType::f64, {count, features}, dy);
    const OwnedTensor dweight("dweight", DType::f64, {vocabulary, features});
    test::poison(dweight.get());
    backward(given.get(), gradient.get(), dweight.get(), Store::replace);
    const std::vector<double> once = test::values_of(dweight.get());
    EXPECT_EQ(once, expected) << "the sums are in the order of the places";
    backward(given.get(), gradient.get(), dweight.get(), Store::add);
    for (double& value : expected) value *= 2;
    EXPECT_LT(test::largest_difference(test::values_of(dweight.get()), expected), 1e-13);
  }
}

/// One token that is more frequent than all others together, like padding; one whose count just fills a piece of a sum,
/// one that exceeds it, rare ones, and places without a token.
TEST(EmbeddingOps, GradientsOfFrequentTokens) {
  std::vector<std::int32_t> tokens(5000, 3);
  for (std::size_t place = 0; place < tokens.size(); ++place)
    if (place % 3 == 1)
      tokens[place] = place < 768 ? 7 : place < 768 + 771 ? 0 : static_cast<std::int32_t>(10 + place % 20);
  for (std::size_t place = 0; place < tokens.size(); place += 9) tokens[place] = no_row;
  const OwnedTensor given = test::make_classes(tokens);
  for (const std::int64_t features : {3, 16}) {
    const auto width = static_cast<std::size_t>(features);
    const std::vector<double> dy = test::filling(1, static_cast<std::int64_t>(tokens.size()) * features);
    std::vector<double> expected(30 * width);
    for (std::size_t place = 0; place < tokens.size(); ++place)
      for (std::size_t j = 0; j < width && tokens[place] != no_row; ++j)
        expected[static_cast<std::size_t>(tokens[place]) * width + j] += dy[place * width + j];

    const OwnedTensor gradient = test::make_tensor(DType::f64, {static_cast<std::int64_t>(tokens.size()), features},
                                                   dy);
    const OwnedTensor dweight("dweight", DType::f64, {30, features});
    std::vector<double> first;
    for (int run = 0; run < 3; ++run) {
      test::poison(dweight.get());
      backward(given.get(), gradient.get(), dweight.get(), Store::replace);
      const std::vector<double> found = test::values_of(dweight.get());
      EXPECT_LT(test::largest_difference(found, expected), 1e-11);
      if (run == 0) first = found;
      EXPECT_EQ(found, first) << "whatever the order in which threads come by";
    }
    backward(given.get(), gradient.get(), dweight.get(), Store::add);
    for (double& value : expected) value *= 2;
    EXPECT_LT(test::largest_difference(test::values_of(dweight.get()), expected), 1e-11);
  }
}

/// Tables that begin at multiples of a power of two, as in recommenders: sums are those of plain loops over pieces, bit
/// for bit.
TEST(EmbeddingOps, GradientsOfFrequentRowsOfManyTables) {
  const std::int64_t vocabulary = 1 << 20, count = 3000;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t place = 0; place < tokens.size(); ++place)
    tokens[place] = static_cast<std::int32_t>(place % 4 == 3 ? place * 1024 % vocabulary : place % 4 * 262144);
  const std::vector<double> dy = test::filling(1, count);
  std::vector<double> expected(static_cast<std::size_t>(vocabulary)), piece(expected);
  std::vector<int> places(expected.size()), in_piece(expected.size());
  for (const std::int32_t token : tokens) ++places[static_cast<std::size_t>(token)];
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    const auto token = static_cast<std::size_t>(tokens[place]);
    piece[token] += dy[place];
    if (places[token] > 256 && ++in_piece[token] < 256) continue;
    expected[token] += piece[token];
    piece[token] = in_piece[token] = 0;
  }
  for (std::size_t token = 0; token < expected.size(); ++token) expected[token] += piece[token];

  const OwnedTensor given = test::make_classes(tokens), gradient = test::make_tensor(DType::f64, {count, 1}, dy),
                    dweight("dweight", DType::f64, {vocabulary, 1});
  backward(given.get(), gradient.get(), dweight.get(), Store::replace);
  EXPECT_EQ(test::values_of(dweight.get()), expected);
}

/// On CPUs, the workspace depends on the number of places alone and not on the table's size; few places need none.
TEST(EmbeddingOps, NeedsNoMemoryForWordsThatDoNotCome) {
  if (thread_per_element) return;
  EXPECT_EQ(embedding_workspace_bytes(DType::f32, 256, 26'000'000, 64), 0U);
  const std::size_t bytes = embedding_workspace_bytes(DType::f32, 8192, 26'000'000, 64);
  EXPECT_EQ(bytes, embedding_workspace_bytes(DType::f32, 8192, 1000, 64));
  EXPECT_LT(bytes, 400'000U);
}

/// A token at 30 % of 65,536 places: a plain sum of that many numbers of one sign would lose five bits.
TEST(EmbeddingOps, GradientsOfFrequentTokensAreRoundedLittle) {
  const std::int64_t count = 65536, features = 8;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t place = 0; place < tokens.size(); ++place)
    tokens[place] = place % 10 < 3 ? 1 : static_cast<std::int32_t>(2 + place % 97);
  std::vector<double> dy = test::filling(1, count * features);
  for (double& value : dy) value = std::abs(value) / 3;  // so that all bits of the mantissa are in use
  dy = test::rounded(DType::f32, dy);
  std::vector<double> expected(99 * features);
  for (std::size_t i = 0; i < dy.size(); ++i)
    expected[static_cast<std::size_t>(tokens[i / features]) * features + i % features] += dy[i];

  const OwnedTensor given = test::make_classes(tokens), gradient = test::make_tensor(DType::f32, {count, features}, dy),
                    dweight("dweight", DType::f32, {99, features});
  backward(given.get(), gradient.get(), dweight.get(), Store::replace);
  const std::vector<double> found = test::values_of(dweight.get());
  EXPECT_LT(test::largest_difference(found, expected), 1e-6);
}

/// The last row of the largest table whose rows fp32 can number, rows outside the tables, and a NaN.
TEST(EmbeddingOps, RowsOfTables) {
  const ExecSpace space;
  const std::vector<std::int64_t> first{0, 3, 3 + (1 << 24)};
  const OwnedTensor begins("first", DType::i64, {3}), rows("rows", DType::i32, {5, 2});
  copy_from_host(space, first.data(), begins.get());
  for (const DType dtype : {DType::f32, DType::f64}) {
    const OwnedTensor x = test::make_tensor(dtype, {5, 2}, {0, 0, 2, (1 << 24) - 1, 3, 1 << 24, -1, NAN, 1.25, 1e30});
    find_table_rows(space, x.get(), begins.get(), rows.get());
    std::vector<std::int32_t> found(10);
    copy_to_host(space, rows.get(), found.data());
    const std::int32_t last = 3 + (1 << 24) - 1;
    EXPECT_EQ(found, (std::vector<std::int32_t>{0, 3, 2, last, no_row, no_row, no_row, no_row, 1, no_row}));
  }
}

TEST(EmbeddingOps, NoRowIsNaNAndHasNoGradient) {
  const ExecSpace space;
  const std::int64_t features = 35;
  const OwnedTensor tokens = test::make_classes({1, no_row, 1});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const DType master = master_dtype(dtype);
    const OwnedTensor weight = test::make_filled(master, {2, features}, 1), y("y", dtype, {3, features}),
                      dy = test::make_filled(dtype, {3, features}, 2), dweight("dweight", master, {2, features});
    embedding_forward(space, tokens.get(), weight.get(), y.get());
    backward(tokens.get(), dy.get(), dweight.get(), Store::replace);
    const auto out = test::values_of(y.get()), g = test::values_of(dy.get()), gradient = test::values_of(dweight.get());
    for (std::size_t j = 0; j < 35; ++j) {
      EXPECT_TRUE(std::isfinite(out[j]) && std::isnan(out[35 + j]) && out[70 + j] == out[j]);
      EXPECT_EQ(gradient[j], 0);
      EXPECT_NEAR(gradient[35 + j], g[j] + g[70 + j], 1e-6);
    }
  }
}

TEST(Rows, OfElementsBeyond32Bits) {
  const std::int64_t edge = std::int64_t{1} << 32;
  for (const std::int64_t c : {std::int64_t{1}, std::int64_t{7}, edge - 1, edge, edge + 1})
    for (const std::int64_t i : {std::int64_t{0}, c - 1, c, edge - 1, edge, edge + 1, 5 * edge + 3})
      EXPECT_EQ(row_of(i, c), i / c) << i << " of rows of " << c;
}

}  // namespace
}  // namespace lockstep
