// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/synthetic.hpp"

#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

struct Examples {
  std::vector<std::byte> inputs, targets;
};

Examples read_all(const Dataset& dataset, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  Examples examples{std::vector<std::byte>(numbers.size() * dataset.format().input_bytes()),
                    std::vector<std::byte>(numbers.size() * dataset.format().target_bytes())};
  dataset.read(numbers, examples.inputs.data(), examples.targets.data());
  return examples;
}

template <class T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Every machine, compiler and set of flags must draw the very same images.
TEST(Glyphs, AreTheSameOnEveryMachine) {
  const GlyphsConfig config;
  const auto dataset = config.make(Split::train, 1);
  const Examples examples = read_all(*dataset, 100);
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(examples.inputs.data(), examples.inputs.size())), "435d15b04fbf004e");
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(examples.targets.data(), examples.targets.size())), "e009aed29d4ccf16");
}

TEST(Glyphs, AreImagesOfTenClasses) {
  const GlyphsConfig config;
  const auto dataset = config.make(Split::train, 1);
  EXPECT_EQ(dataset->size(), 8192);
  EXPECT_EQ(dataset->format(), (ExampleFormat{{28, 28, 1}, DType::u8, {}, DType::i32}));
  dataset->check_classes(10);
  expect_error(ExitStatus::bad_data, "of class 9", [&] { dataset->check_classes(9); });
  std::vector<int> counts(10);
  for (const auto digit : as<std::int32_t>(read_all(*dataset, 8192).targets)) ++counts[static_cast<std::size_t>(digit)];
  for (const int count : counts) EXPECT_NEAR(count, 819.2, 120);
}

TEST(Pages, AreTheSameOnEveryMachine) {
  const auto dataset = PagesConfig().make(Split::train, 1);
  EXPECT_EQ(dataset->format(), (ExampleFormat{{64, 64, 1}, DType::u8, {64, 64}, DType::i32}));
  const Examples examples = read_all(*dataset, 100);
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(examples.inputs.data(), examples.inputs.size())), "63b9aca0050a4bcb");
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(examples.targets.data(), examples.targets.size())), "ff8480e1abe8aed7");
}

TEST(Pages, SayOfEachPixelWhatItIs) {
  PagesConfig config;
  config.noise = 0;
  const auto dataset = config.make(Split::validation, 3);
  dataset->check_classes(11, -1);
  expect_error(ExitStatus::bad_data, "of 11 classes (the model has 10)", [&] { dataset->check_classes(10, -1); });
  const Examples examples = read_all(*dataset, 500);
  const auto pixels = as<std::uint8_t>(examples.inputs);
  const auto classes = as<std::int32_t>(examples.targets);
  std::vector<int> counts(11);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    ASSERT_EQ(classes[i] > 0, pixels[i] >= 64);
    ++counts[static_cast<std::size_t>(classes[i])];
  }
  // Three of four cells hold a digit, and about a twelfth of such a cell is ink.
  EXPECT_NEAR(counts[0], 0.93 * static_cast<double>(pixels.size()), 0.03 * static_cast<double>(pixels.size()));
  for (std::size_t digit = 1; digit < counts.size(); ++digit) EXPECT_GT(counts[digit], 4000);
}

TEST(Glyphs, DependOnSeedSplitAndNumberOnly) {
  GlyphsConfig config;
  const auto dataset = config.make(Split::train, 1), other_seed = config.make(Split::train, 2);
  const auto validation = config.make(Split::validation, 1);
  const auto a = read_all(*dataset, 50);
  EXPECT_EQ(a.inputs, read_all(*dataset, 50).inputs);
  EXPECT_NE(a.inputs, read_all(*other_seed, 50).inputs);
  EXPECT_NE(a.inputs, read_all(*validation, 50).inputs);
  config.train = 60;  // a smaller set is the beginning of a larger one
  EXPECT_EQ(a.inputs, read_all(*config.make(Split::train, 1), 50).inputs);

  std::vector<std::int64_t> backwards{49, 7, 0};
  std::vector<std::byte> inputs(3 * 784), targets(12);
  config.make(Split::train, 1)->read(backwards, inputs.data(), targets.data());
  EXPECT_EQ(std::memcmp(inputs.data() + 784, a.inputs.data() + 7 * 784, 784), 0);
}

struct Clicks {
  std::vector<float> inputs, targets;
  std::vector<double> probabilities;
};

Clicks read_clicks(const ClicksConfig& config, Split split) {
  const auto dataset = config.make(split, 1);
  const Examples examples = read_all(*dataset, dataset->size());
  Clicks clicks{as<float>(examples.inputs), as<float>(examples.targets), {}};
  const ClickWorld world = config.world(1);
  const auto numbers = static_cast<std::size_t>(dataset->format().input_shape[0]);
  for (std::size_t i = 0; i < clicks.targets.size(); ++i)
    clicks.probabilities.push_back(world.probability(&clicks.inputs[i * numbers]));
  return clicks;
}

/// Rows with small numbers are more frequent, and clicks, likely and unlikely ones, have their probabilities.
TEST(Clicks, FollowTheirLaw) {
  ClicksConfig config;
  config.dense = 2;
  config.vocabularies = {5, 1};
  config.train = 20000;
  EXPECT_EQ(config.make(Split::train, 1)->format(), (ExampleFormat{{4}, DType::f32, {1}, DType::f32}));
  const Clicks clicks = read_clicks(config, Split::train);
  std::vector<double> rows(5);
  double square = 0;
  for (std::size_t i = 0; i < clicks.inputs.size(); i += 4) {
    square += (clicks.inputs[i] * clicks.inputs[i] + clicks.inputs[i + 1] * clicks.inputs[i + 1]) / 40000;
    rows.at(static_cast<std::size_t>(clicks.inputs[i + 2])) += 1.0 / 20000;
    EXPECT_EQ(clicks.inputs[i + 3], 0);
  }
  EXPECT_NEAR(square, 1, 0.03);
  for (std::size_t r = 0; r < rows.size(); ++r)
    EXPECT_NEAR(rows[r], 60.0 / 137 / static_cast<double>(r + 1), 0.015) << r;
  for (const bool likely : {true, false}) {
    double difference = 0, variance = 0;
    for (std::size_t i = 0; i < clicks.targets.size(); ++i) {
      const double p = clicks.probabilities[i];
      if ((p > 0.4) != likely) continue;
      difference += static_cast<double>(clicks.targets[i]) - p;
      variance += p * (1 - p);
    }
    EXPECT_GT(variance, 200);
    EXPECT_LT(std::abs(difference), 4 * std::sqrt(variance));
  }
}

TEST(Clicks, BothSplitsHaveOneLawAndAnotherSeedHasAnother) {
  ClicksConfig config;
  config.train = config.validation = 50;
  const Clicks train = read_clicks(config, Split::train);
  EXPECT_NE(train.inputs, read_clicks(config, Split::validation).inputs);
  EXPECT_EQ(train.inputs, read_clicks(config, Split::train).inputs);
  EXPECT_NE(config.world(1).probability(train.inputs.data()), config.world(2).probability(train.inputs.data()));
  expect_error(ExitStatus::bad_data, "not classes", [&] { config.make(Split::train, 1)->check_classes(2); });
}

/// The area that regression/recommender_test.py compares a trained network with.
TEST(Clicks, AreaUnderTheCurveOfTheLawOfInputsSyntheticRecommender) {
  ClicksConfig config;
  config.validation = 16384;
  const Clicks clicks = read_clicks(config, Split::validation);
  std::vector<std::size_t> order(clicks.targets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return clicks.probabilities[i]; });
  double zeros = 0, ones = 0, area = 0;
  for (const std::size_t i : order) {
    const bool click = clicks.targets[i] == 1;
    area += click ? zeros : 0;
    (click ? ones : zeros) += 1;
  }
  EXPECT_NEAR(area / (zeros * ones), 0.85494, 5e-5);
}

TEST(Linear, TargetsFollowTheKnownWeights) {
  LinearDataConfig config;
  config.outputs = 3;
  config.train = 64;
  const auto dataset = config.make(Split::train, 1);
  EXPECT_EQ(dataset->format(), (ExampleFormat{{32}, DType::f32, {3}, DType::f32}));
  const Examples examples = read_all(*dataset, 64);
  const auto x = as<float>(examples.inputs), y = as<float>(examples.targets);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t k = 0; k < 3; ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < 32; ++j)
        sum += linear_weight(static_cast<std::int64_t>(k), static_cast<std::int64_t>(j)) *
               static_cast<double>(x[i * 32 + j]);
      EXPECT_NEAR(static_cast<double>(y[i * 3 + k]), sum, 1e-6);
    }
  EXPECT_EQ(linear_weight(0, 0), -1.0);
  EXPECT_EQ(linear_weight(0, 8), 1.0);
  EXPECT_EQ(linear_weight(2, 3), -1.0);
}

TEST(Linear, NoiseHasItsStandardDeviation) {
  LinearDataConfig clean, noisy;
  noisy.noise = 0.5;
  const auto a = as<float>(read_all(*clean.make(Split::train, 1), 8192).targets);
  const auto b = as<float>(read_all(*noisy.make(Split::train, 1), 8192).targets);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double e = static_cast<double>(b[i]) - static_cast<double>(a[i]);
    sum += e;
    squares += e * e;
  }
  EXPECT_NEAR(sum / 8192, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 8192), 0.5, 0.02);
}

TEST(Random, HasTheShapeAndClassesAskedFor) {
  RandomConfig config;
  config.shape = {8, 9, 3};
  config.classes = 7;
  config.train = 500;
  const auto dataset = config.make(Split::train, 1);
  EXPECT_EQ(dataset->format(), (ExampleFormat{{8, 9, 3}, DType::f32, {}, DType::i32}));
  dataset->check_classes(7);
  const Examples examples = read_all(*dataset, 500);
  double sum = 0;
  for (const float value : as<float>(examples.inputs)) {
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / (500 * 216), 0.5, 0.01);
  const auto targets = as<std::int32_t>(examples.targets);
  EXPECT_EQ(std::set<std::int32_t>(targets.begin(), targets.end()).size(), 7u);
  EXPECT_NE(examples.inputs, read_all(*config.make(Split::validation, 1), 500).inputs);

  config.type = RandomConfig::Type::u8;
  EXPECT_EQ(config.make(Split::train, 1)->format().input_dtype, DType::u8);
}

TEST(Synthetic, NoValidationExamplesMeansNoDataset) {
  GlyphsConfig config;
  config.validation = 0;
  EXPECT_EQ(config.make(Split::validation, 1), nullptr);
}

}  // namespace
}  // namespace lockstep::test
