// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metric_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/loss.hpp"
#include "reference/metrics.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::filling;

constexpr std::int64_t examples = 9, outputs = 7;

Tensor slice(const Tensor& of, const Shape& one, std::int64_t first, std::int64_t count) {
  const std::size_t offset = static_cast<std::size_t>(first * one.count()) * size_of(of.dtype);
  return {static_cast<std::byte*>(of.data) + offset, of.dtype, one.with_batch(count)};
}

/// The value after two batches, of all examples but the last one, and of that.
double measured(const std::string& name, const Shape& one_output, const Tensor& y, const Tensor& targets) {
  const ExecSpace space;
  const auto extents = targets.shape.extents();
  const Shape one_target(extents.subspan(1));
  const std::unique_ptr<Metric> metric = find_metric(name)->make(one_output);
  const OwnedTensor sums("sums", DType::f64, {metric->sum_count()});
  const OwnedTensor scratch("scratch", DType::f64, {examples * one_output.count() / one_output[-1], 2});
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, examples - 1}, {examples - 1, 1}})
    metric->add(space, slice(y, one_output, first, count), slice(targets, one_target, first, count), scratch.get(),
                sums.get());
  space.fence();
  return metric->value(test::values_of(sums.get()), examples);
}

class Metrics : public testing::TestWithParam<DType> {
 protected:
  const DType dtype = GetParam();
  const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-6;
};

/// Of vectors, and of sequences of three positions.
TEST_P(Metrics, OfClasses) {
  for (const std::int64_t positions : {1, 3}) {
    const Shape one = positions == 1 ? Shape{outputs} : Shape{positions, outputs};
    const std::vector<double> y = test::rounded(dtype, filling(1, examples * positions * outputs));
    std::vector<std::int32_t> classes;
    for (std::int64_t i = 0; i < examples * positions; ++i)
      classes.push_back(static_cast<std::int32_t>(5 * i % outputs));
    const OwnedTensor given = test::make_tensor(dtype, one.with_batch(examples), y);
    const OwnedTensor flat = test::make_classes(classes);
    const Tensor targets = flat.get().reshaped(positions == 1 ? Shape{examples} : Shape{examples, positions});
    const auto rows = static_cast<double>(examples * positions);
    for (const auto& [name, k] : {std::pair("top_2", 2), {"top_3", 3}, {"top_5", 5}})
      EXPECT_EQ(measured(name, one, given.get(), targets),
                reference::hits(static_cast<std::size_t>(k), outputs, y, classes) / rows)
          << name;
    const double entropy = reference::cross_entropy(0, outputs, y, classes).loss / rows;
    EXPECT_NEAR(measured("perplexity", one, given.get(), targets), std::exp(entropy), tolerance * std::exp(entropy));
  }
}

TEST_P(Metrics, OfEqualOutputsTheFirstComesFirst) {
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, std::vector<double>(examples * outputs, 0.5));
  const OwnedTensor classes = test::make_classes({0, 1, 2, 3, 4, 5, 6, 0, 1});
  EXPECT_EQ(measured("top_2", {outputs}, given.get(), classes.get()), 4.0 / 9);
}

TEST_P(Metrics, OutputsThatAreNoNumbersAreNoHits) {
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, std::vector<double>(examples * outputs, NAN));
  const OwnedTensor classes = test::make_classes(std::vector<std::int32_t>(examples, 0));
  EXPECT_EQ(measured("top_5", {outputs}, given.get(), classes.get()), 0);
}

TEST_P(Metrics, ANumberAmongOthersThatAreNoneIsNoHit) {
  std::vector<double> y(examples * outputs, NAN);
  for (std::int64_t i = 0; i < examples; ++i) y[static_cast<std::size_t>(i * outputs)] = 1;
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, y);
  const OwnedTensor classes = test::make_classes(std::vector<std::int32_t>(examples, 0));
  EXPECT_EQ(measured("top_5", {outputs}, given.get(), classes.get()), 0);
}

TEST_P(Metrics, RSquaredOfWhatIsNoNumberIsNone) {
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, std::vector<double>(examples * outputs, NAN));
  const OwnedTensor targets = test::make_tensor(master_dtype(dtype), {examples, outputs},
                                                std::vector<double>(examples * outputs, 0.25));
  EXPECT_TRUE(std::isnan(measured("r_squared", {outputs}, given.get(), targets.get())));
}

TEST_P(Metrics, RSquared) {
  const DType master = master_dtype(dtype);
  const std::vector<double> y = test::rounded(dtype, filling(1, examples * outputs));
  std::vector<double> t = test::rounded(master, filling(2, examples * outputs));
  for (std::int64_t i = 0; i < examples; ++i) t[static_cast<std::size_t>(i * outputs)] = 0.25;  // missed, and constant
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, y);
  const OwnedTensor targets = test::make_tensor(master, {examples, outputs}, t);
  EXPECT_NEAR(measured("r_squared", {outputs}, given.get(), targets.get()), reference::r_squared(outputs, y, t),
              tolerance);
  if (dtype != master) return;
  const OwnedTensor same = test::make_tensor(dtype, {examples, outputs}, test::values_of(targets.get()));
  EXPECT_EQ(measured("r_squared", {outputs}, same.get(), targets.get()), 1);
}

INSTANTIATE_TEST_SUITE_P(Types, Metrics, testing::Values(DType::f64, DType::f32, DType::bf16));

TEST(MetricTable, NamesAreThoseOfColumns) {
  for (const std::string_view name : metric_names()) {
    EXPECT_TRUE(std::ranges::all_of(name, [](char c) { return std::islower(c) || std::isdigit(c) || c == '_'; }))
        << name;
    EXPECT_EQ(find_metric(name)->name, name);
  }
  EXPECT_EQ(find_metric("accuracy"), nullptr) << "comes with the loss";
  EXPECT_EQ(better_of("loss"), Better::less);
  EXPECT_EQ(better_of("accuracy"), Better::more);
}

}  // namespace
}  // namespace lockstep
