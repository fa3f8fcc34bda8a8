// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "ops/products/provider.hpp"
#include "support/print.hpp"

// Shared by the tests of convolutions, inner products and biases.
namespace lockstep::test {

using Values = std::vector<double>;

/// Random numbers in [-1, 1) that the type (and fp32) represents exactly, so that products and the reference start from
/// the same numbers.
inline Values random_values(DType dtype, const Shape& shape, std::uint64_t index) {
  const RandomStream stream(7, RandomPurpose::dataset, index);
  Values values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<float>(2 * stream.uniform(i) - 1);
    dispatch_float(dtype, [&](auto real) { values[i] = static_cast<double>(decltype(real)(number)); });
  }
  return values;
}

inline OwnedTensor upload(DType dtype, const Shape& shape, const Values& values) {
  OwnedTensor tensor("lockstep::test::values", dtype, shape);
  dispatch_float(dtype, [&](auto real) {
    const std::vector<decltype(real)> typed(values.begin(), values.end());
    copy_from_host(ExecSpace(), typed.data(), tensor.get());
  });
  return tensor;
}

inline Values download(const Tensor& tensor) {
  Values values;
  dispatch_float(tensor.dtype, [&](auto real) {
    std::vector<decltype(real)> typed(static_cast<std::size_t>(tensor.count()));
    copy_to_host(ExecSpace(), tensor, typed.data());
    values.assign(typed.begin(), typed.end());
  });
  return values;
}

inline OwnedTensor not_a_number(DType dtype, const Shape& shape) {
  return upload(dtype, shape, Values(static_cast<std::size_t>(shape.count()), std::nan("")));
}

/// Largest rounding error of a sum of `terms` products of numbers in [-1, 1), in any order.
inline double tolerance(DType dtype, std::int64_t terms) {
  const double epsilon = dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
  return epsilon * static_cast<double>(8 + terms);
}

/// Largest rounding error of storing a number x in a 16-bit type, relative to 1 + |x|; twice as large as one rounding,
/// for results that are stored before something is added to them.
inline double storing_error(DType dtype) {
  return dtype == DType::bf16 ? 2.0 / 256 : dtype == DType::f16 ? 2.0 / 2048 : 0;
}

/// Allows each number an error of `tolerance` + `storing`·(1 + its size). `storing`: see storing_error.
inline void expect_near(const Values& actual, const Values& expected, double tolerance, double storing = 0) {
  ASSERT_EQ(actual.size(), expected.size());
  std::size_t worst = 0;
  double error = -std::numeric_limits<double>::infinity();
  const auto allowed = [&](std::size_t i) { return tolerance + storing * (1 + std::abs(expected[i])); };
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]) - allowed(i);
    if (!(difference <= error)) worst = i, error = difference;  // a NaN is the worst
    if (std::isnan(difference)) break;
  }
  if (actual.empty()) return;
  EXPECT_NEAR(actual[worst], expected[worst], allowed(worst)) << "element " << worst;
}

/// Names of the providers of all builds: a test skips those that its build lacks.
inline std::vector<std::string> all_providers() {
  std::vector<std::string> names(std::begin(provider_names), std::end(provider_names));
  std::erase(names, "auto");
  return names;
}

/// Null if this build lacks the provider.
inline const Provider* find_provider(std::string_view name) {
  for (const Provider* provider : providers())
    if (provider->name() == name) return provider;
  return nullptr;
}

/// A tensor between guards: numbers that show whether something was written beyond it.
class GuardedTensor {
 public:
  GuardedTensor(DType dtype, const Shape& shape, const Values& values) : shape_(shape) {
    Values all(values.size() + 2 * guard, number);
    std::ranges::copy(values, all.begin() + guard);
    memory_ = upload(dtype, {std::ssize(all)}, all);
  }
  /// Full of NaN: nothing may rely on what stands there.
  static GuardedTensor not_a_number(DType dtype, const Shape& shape) {
    return {dtype, shape, Values(static_cast<std::size_t>(shape.count()), std::nan(""))};
  }
  /// Memory for a plan's workspace, full of NaN.
  static GuardedTensor workspace(std::size_t bytes) {
    return not_a_number(DType::bf16, {static_cast<std::int64_t>((bytes + 1) / 2)});
  }

  Tensor get() const {
    const Tensor& all = memory_.get();
    return {static_cast<std::byte*>(all.data) + guard * size_of(all.dtype), all.dtype, shape_};
  }
  void expect_guards(std::string_view what) const {
    const Values all = download(memory_.get());
    const auto untouched = [](double value) { return value == number; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + guard, untouched)) << "written before " << what;
    EXPECT_TRUE(std::all_of(all.end() - guard, all.end(), untouched)) << "written beyond " << what;
  }

 private:
  static constexpr int guard = 256;  // keeps the tensor aligned as its allocation is
  static constexpr double number = 77;
  Shape shape_;
  OwnedTensor memory_;
};

}  // namespace lockstep::test
