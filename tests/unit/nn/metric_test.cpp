// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/metrics/metric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "nn/metrics/class_metrics.hpp"
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

/// The metric after two batches: all examples but the last one, and the last one.
double measured(const std::string& name, const Shape& one_output, const Tensor& y, const Tensor& targets,
                std::int64_t ignored = -1) {
  const ExecSpace space;
  const auto extents = targets.shape.extents();
  const Shape one_target(extents.subspan(1));
  const std::unique_ptr<Metric> metric = find_metric(name)->make(one_output, ignored);
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

/// Outputs are vectors, or sequences of three positions.
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

/// Targets whose mean is 5·10⁵ times their deviation, of three ranks with batches of several sizes, the last rank
/// without any. Ranks are imitated in turn, each with the sums of those before it.
TEST(RSquared, OfTargetsFarFromZero) {
  constexpr std::int64_t n = 3000, k = 2;
  std::vector<double> y, t;
  for (const double x : filling(3, n * k)) {
    t.push_back(static_cast<float>(1e5 + 0.2 * x));
    y.push_back(static_cast<float>(t.back() + 0.1 * std::sin(1e3 * x)));
  }
  const OwnedTensor given = test::make_tensor(DType::f32, {n, k}, y),
                    targets = test::make_tensor(DType::f32, {n, k}, t);
  for (const std::vector<std::int64_t>& ranks : {std::vector<std::int64_t>{n}, {1000, n - 1000, 0}, {1, n - 1}}) {
    const std::unique_ptr<Metric> metric = find_metric("r_squared")->make({k}, -1);
    std::vector<std::vector<double>> sums;
    std::int64_t first = 0;
    for (const std::int64_t examples : ranks) {
      const OwnedTensor own("sums", DType::f64, {metric->sum_count()});
      for (const std::int64_t end = first + examples; first < end;) {
        const std::int64_t batch = std::min<std::int64_t>(77, end - first);
        metric->add(ExecSpace(), slice(given.get(), {k}, first, batch), slice(targets.get(), {k}, first, batch), {},
                    own.get());
        first += batch;
      }
      ExecSpace().fence();
      sums.push_back(test::values_of(own.get()));
    }
    std::vector<std::vector<double>> added;  // by the calls of `add`, over the ranks that have made them
    double value = 0;
    for (std::size_t calls = 0; calls < 3; ++calls) {  // after each round one more call has the sums of all ranks
      std::vector<std::vector<double>> next;
      for (const std::vector<double>& own : sums) {
        std::size_t call = 0;
        value = metric->value_over_ranks(own, n, [&](std::span<double> values) {
          next.resize(std::max(next.size(), call + 1), std::vector<double>(values.size()));
          next[call].resize(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) next[call][i] += values[i];
          if (call < added.size()) std::ranges::copy(added[call], values.begin());
          ++call;
        });
      }
      added = next;
    }
    EXPECT_NEAR(value, reference::r_squared(k, y, t), 1e-9) << ranks.size();
  }
}

/// The values of a channel at all positions of a picture count as rows of one output: N·H·W×K, as in scikit-learn.
TEST_P(Metrics, OfValuesAtPositions) {
  constexpr std::int64_t channels = 2, positions = 6, count = examples * positions * channels;
  const Shape picture{2, 3, channels};
  const std::vector<double> y = test::rounded(dtype, filling(1, count));
  std::vector<double> t = test::rounded(master_dtype(dtype), filling(2, count));
  const OwnedTensor given = test::make_tensor(dtype, picture.with_batch(examples), y);
  const OwnedTensor targets = test::make_tensor(master_dtype(dtype), picture.with_batch(examples), t);
  EXPECT_NEAR(measured("r_squared", picture, given.get(), targets.get()), reference::r_squared(channels, y, t),
              tolerance);

  for (double& value : t) value = value > 0 ? 1 : 0;
  const Shape rows{examples * positions, channels};
  const OwnedTensor ones = test::make_tensor(master_dtype(dtype), picture.with_batch(examples), t);
  const std::unique_ptr<Metric> of_rows = find_metric("auc")->make({channels}, -1);
  EXPECT_EQ(find_metric("auc")->make(picture, -1)->sum_count(), of_rows->sum_count()) << "as many bins for any size";
  const OwnedTensor sums("sums", DType::f64, {of_rows->sum_count()});
  of_rows->add(ExecSpace(), given.get().reshaped(rows), ones.get().reshaped(rows), {}, sums.get());
  ExecSpace().fence();
  EXPECT_EQ(measured("auc", picture, given.get(), ones.get()),
            of_rows->value(test::values_of(sums.get()), examples * positions));
}

/// Golden values of scikit-learn, with and without targets of an ignored class.
TEST_P(Metrics, OfScikitLearn) {
  if (dtype == DType::bf16) GTEST_SKIP() << "rounded outputs have other classes";
  for (const auto& golden : nlohmann::json::parse(test::read_golden("metrics.json"))) {
    const std::int64_t n = golden.at("n"), k = golden.at("k"), ignored = golden.at("ignored");
    const OwnedTensor given = test::make_filled(dtype, {n, k}, 1);
    const OwnedTensor targets = test::make_classes(golden.at("targets"));
    const ExecSpace space;
    for (const char* name : {"precision", "recall", "f1", "iou", "top_2"}) {
      const std::unique_ptr<Metric> metric = find_metric(name)->make({k}, ignored);
      const OwnedTensor sums("sums", DType::f64, {metric->sum_count()}), scratch("scratch", DType::f64, {n, 2});
      metric->add(space, given.get(), targets.get(), scratch.get(), sums.get());
      space.fence();
      EXPECT_NEAR(metric->value(test::values_of(sums.get()), n), golden.at(name).get<double>(), 1e-14) << name;
    }
    const OwnedTensor matrix("matrix", DType::f64, {k, k});
    count_confusions(space, given.get(), targets.get(), ignored, matrix.get());
    space.fence();
    EXPECT_EQ(test::values_of(matrix.get()), golden.at("confusions").get<std::vector<double>>());
  }
}

/// Golden values of scikit-learn, with some equal outputs. In 16 bits, where more outputs are equal, they do not hold.
TEST_P(Metrics, AreaUnderCurveIsThatOfScikitLearn) {
  if (is_16_bit_type(dtype)) GTEST_SKIP() << "rounded outputs are other ones";
  for (const auto& golden : nlohmann::json::parse(test::read_golden("roc_auc.json"))) {
    const std::int64_t n = golden.at("n"), k = golden.at("k");
    const OwnedTensor given = test::make_tensor(dtype, {n, k}, golden.at("outputs")),
                      targets = test::make_tensor(master_dtype(dtype), {n, k}, golden.at("targets"));
    const std::unique_ptr<Metric> metric = find_metric("auc")->make({k}, -1);
    const OwnedTensor sums("sums", DType::f64, {metric->sum_count()}), scratch("scratch", DType::f64, {n, 2});
    const std::int64_t first = n / 3;  // two batches
    metric->add(ExecSpace(), slice(given.get(), {k}, 0, first), slice(targets.get(), {k}, 0, first), scratch.get(),
                sums.get());
    metric->add(ExecSpace(), slice(given.get(), {k}, first, n - first), slice(targets.get(), {k}, first, n - first),
                scratch.get(), sums.get());
    ExecSpace().fence();
    EXPECT_NEAR(metric->value(test::values_of(sums.get()), n), golden.at("auc").get<double>(), 1e-4);
  }
}

TEST_P(Metrics, AreaUnderCurveOfFewOutputs) {
  const auto area = [&](const std::vector<double>& y, const std::vector<double>& t, std::int64_t k) {
    const Shape shape{static_cast<std::int64_t>(y.size()) / k, k};
    const OwnedTensor given = test::make_tensor(dtype, shape, y),
                      targets = test::make_tensor(master_dtype(dtype), shape, t);
    const std::unique_ptr<Metric> metric = find_metric("auc")->make({k}, -1);
    const OwnedTensor sums("sums", DType::f64, {metric->sum_count()});
    metric->add(ExecSpace(), given.get(), targets.get(), {}, sums.get());
    ExecSpace().fence();
    return metric->value(test::values_of(sums.get()), shape[0]);
  };
  constexpr double inf = INFINITY;
  EXPECT_EQ(area({-inf, -1e30, 1e30, inf}, {0, 0, 1, 1}, 1), 1);
  EXPECT_EQ(area({2, 1, 1, -2}, {0, 0, 1, 1}, 1), 0.125) << "equal outputs count half";
  EXPECT_EQ(area({2, 5, 1, 6, 1, 7, -2, 8}, {0, 1, 0, 1, 1, 1, 1, 1}, 2), 0.125) << "the other output has no zeros";
  EXPECT_TRUE(std::isnan(area({1, 2, 3}, {1, 1, 1}, 1))) << "no zeros at all";
  EXPECT_TRUE(std::isnan(area({1, NAN, 3}, {0, 1, 1}, 1)));
}

/// Outputs that rise, of targets that are 1 the more often the larger they are. (The area is exact, from ranks.) They
/// are logits, probabilities near 0 and 1, and numbers of any size.
TEST(AreaUnderCurve, OfProbabilitiesAndLogits) {
  constexpr int n = 20000;
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::pair<const char*, std::function<double(double)>> courses[] = {
      {"logits", [](double u) { return 40 * u - 20; }},
      {"their sigmoids", [&](double u) { return logistic(40 * u - 20); }},
      {"sigmoids near 1", [&](double u) { return logistic(10 * u + 5); }},
      {"sigmoids near 0", [&](double u) { return logistic(-10 * u - 5); }},
      {"a large share of powers", [](double u) { return 1e-3 * std::pow(u, 5); }},
      {"large ones of both signs", [](double u) { return 6000 * u - 3000; }},
      {"small ones of both signs", [](double u) { return 1e-4 * (u - 0.5); }},
  };
  for (const auto& [name, course] : courses) {
    std::vector<std::pair<float, bool>> rows;
    for (int i = 0; i < n; ++i) {
      const double u = (i + 0.5) / n;
      rows.emplace_back(static_cast<float>(course(u)), i * 7919 % 1000 < 100 + 800 * u);
    }
    std::vector<double> y, t;
    for (const auto& [output, is_one] : rows) {
      y.push_back(output);
      t.push_back(is_one ? 1 : 0);
    }
    std::ranges::sort(rows);
    double area = 0, zeros_below = 0, ones = 0;
    for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      double zeros_here = 0, ones_here = 0;
      for (; end < rows.size() && rows[end].first == rows[begin].first; ++end)
        ++(rows[end].second ? ones_here : zeros_here);
      area += ones_here * (zeros_below + zeros_here / 2);
      zeros_below += zeros_here;
      ones += ones_here;
    }
    const OwnedTensor given = test::make_tensor(DType::f32, {n, 1}, y),
                      targets = test::make_tensor(DType::f32, {n, 1}, t);
    const std::unique_ptr<Metric> metric = find_metric("auc")->make({1}, -1);
    const OwnedTensor sums("sums", DType::f64, {metric->sum_count()});
    metric->add(ExecSpace(), given.get(), targets.get(), {}, sums.get());
    ExecSpace().fence();
    EXPECT_NEAR(metric->value(test::values_of(sums.get()), n), area / (zeros_below * ones), 1e-5) << name;
  }
}

TEST_P(Metrics, WhatIsNoNumberIsNoPrediction) {
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, std::vector<double>(examples * outputs, NAN));
  const OwnedTensor classes = test::make_classes(std::vector<std::int32_t>(examples, 0));
  for (const char* name : {"precision", "recall", "f1", "iou"})
    EXPECT_EQ(measured(name, {outputs}, given.get(), classes.get()), 0) << name;
}

TEST_P(Metrics, TargetsThatDoNotCountChangeNothing) {
  std::vector<double> y = filling(1, examples * outputs);
  std::vector<std::int32_t> some, all;
  for (std::int32_t i = 0; i < examples; ++i) {
    all.push_back(i % 3 == 1 ? 255 : 5 * i % outputs);
    if (i % 3 != 1) some.push_back(all.back());
  }
  std::vector<double> counted;
  for (std::size_t i = 0; i < examples; ++i)
    if (i % 3 != 1)
      counted.insert(counted.end(), y.begin() + static_cast<std::ptrdiff_t>(i * outputs),
                     y.begin() + static_cast<std::ptrdiff_t>((i + 1) * outputs));
  const OwnedTensor given = test::make_tensor(dtype, {examples, outputs}, y), targets = test::make_classes(all);
  const double entropy = reference::cross_entropy(0, outputs, test::rounded(dtype, counted), some).loss /
                         static_cast<double>(some.size());
  EXPECT_NEAR(measured("perplexity", {outputs}, given.get(), targets.get(), 255), std::exp(entropy), 10 * tolerance);
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
